#include "train/learning_rate.h"

#include <cmath>

namespace trireme {
namespace {

constexpr double kPi = 3.14159265358979323846;

double cosine(const OptimSettings& optim, double done) {
  return optim.sched.min_lr + 0.5 * (1 + std::cos(kPi * done)) * (optim.lr - optim.sched.min_lr);
}

double as_double(int64_t value) { return static_cast<double>(value); }

// The form with a constant tail, as Megatron has it.
double cosine_with_tail(const OptimSettings& optim, int64_t max_steps, int64_t step) {
  const int64_t warmup = optim.sched.warmup_steps, decay = max_steps - optim.sched.constant_steps - warmup;
  if (warmup > 0 && step <= warmup) return optim.lr * as_double(step) / as_double(warmup);
  if (step > warmup + decay || decay <= 0) return optim.sched.min_lr;
  return cosine(optim, as_double(step - warmup) / as_double(decay));
}

}  // namespace

double learning_rate(const OptimSettings& optim, int64_t max_steps, int64_t step) {
  const bool constant = optim.sched.name == "constant";
  const int64_t warmup = optim.sched.warmup_steps;
  if (!constant && optim.sched.constant_steps > 0) return cosine_with_tail(optim, max_steps, step);
  if (step < warmup) return optim.lr * as_double(step + 1) / as_double(warmup + 1);
  if (constant) return optim.lr;
  if (step > max_steps || max_steps <= warmup) return optim.sched.min_lr;
  return cosine(optim, as_double(step - warmup) / as_double(max_steps - warmup));
}

}  // namespace trireme
