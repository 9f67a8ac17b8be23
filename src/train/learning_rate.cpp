#include "train/learning_rate.h"

#include <cmath>

namespace trireme {
namespace {

constexpr double kPi = 3.14159265358979323846;

double cosine(const OptimSettings& optim, double done) {
  return optim.sched.min_lr + 0.5 * (1 + std::cos(kPi * done)) * (optim.lr - optim.sched.min_lr);
}

// The form with a constant tail, as Megatron has it.
double cosine_with_tail(const OptimSettings& optim, double max_steps, double step) {
  const double warmup = optim.sched.warmup_steps, decay = max_steps - static_cast<double>(optim.sched.constant_steps) - warmup;
  if (warmup > 0 && step <= warmup) return optim.lr * step / warmup;
  if (step > warmup + decay || decay <= 0) return optim.sched.min_lr;
  return cosine(optim, (step - warmup) / decay);
}

}  // namespace

double learning_rate(const OptimSettings& optim, int64_t max_steps, int64_t steps_done) {
  const ScheduleSettings& sched = optim.sched;
  const bool constant = sched.name == LearningRateSchedule::constant;
  const bool laid_out_otherwise = sched.name == LearningRateSchedule::cosine_exp && sched.max_steps_for_lr_sched > 0;
  const double end = laid_out_otherwise ? sched.max_steps_for_lr_sched : static_cast<double>(max_steps);
  const auto step = static_cast<double>(steps_done);
  if (!constant && sched.constant_steps > 0) return cosine_with_tail(optim, end, step);
  if (step < sched.warmup_steps) return optim.lr * (step + 1) / (sched.warmup_steps + 1);
  if (constant) return optim.lr;
  if (step > end || end <= sched.warmup_steps) return sched.min_lr;
  return cosine(optim, (step - sched.warmup_steps) / (end - sched.warmup_steps));
}

}  // namespace trireme
