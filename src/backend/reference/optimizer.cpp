#include <cmath>

#include "backend/host_loss_scale.h"
#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

void ReferenceBackend::run(Stream, const SquaredNorms& op) {
  for (size_t r = 0; r < op.ranges.size(); ++r) {
    double sum = 0;
    for (int64_t i = op.ranges[r].begin; i < op.ranges[r].begin + op.ranges[r].count; ++i) sum += std::pow(get(op.grads, i), 2);
    set(op.squares, static_cast<int64_t>(r), sum);
  }
}

void ReferenceBackend::run(Stream, const ApplyClip& op) {
  double sum = 0;
  for (int64_t r = 0; r < op.squares.count(); ++r) sum += get(op.squares, r);
  const double loss_scale = scalar(op.scalars, StepScalar::loss_scale);
  const double norm = std::sqrt(sum) / loss_scale, factor = op.max_norm / (norm + 1e-6);
  const bool finite = std::isfinite(norm) && std::isfinite(scalar(op.scalars, StepScalar::loss_sum));
  scalar_slot(op.scalars, StepScalar::grad_norm) = norm;
  scalar_slot(op.scalars, StepScalar::finite) = finite ? 1 : 0;
  scalar_slot(op.scalars, StepScalar::clip_factor) = (op.max_norm > 0 && factor < 1 ? factor : 1) / loss_scale;
  scalar_slot(op.scalars, StepScalar::updates) += finite ? 1 : 0;
}

void ReferenceBackend::run(Stream, const ScaleLoss& op) { scale_loss(op); }
void ReferenceBackend::run(Stream, const UpdateLossScale& op) { update_loss_scale(op); }

void ReferenceBackend::run(Stream, const AdamW& op) {
  if (scalar(op.scalars, StepScalar::finite) == 0) return;
  const double lr = scalar(op.scalars, StepScalar::learning_rate), clip = scalar(op.scalars, StepScalar::clip_factor);
  const double updates = scalar(op.scalars, StepScalar::updates);
  const double correction1 = 1 - std::pow(op.beta1, updates), correction2 = 1 - std::pow(op.beta2, updates);
  for (const DecayRange& range : op.ranges)
    for (int64_t i = range.begin; i < range.begin + range.count; ++i) {
      const double gradient = get(op.grads, i) * clip;
      const double m = op.beta1 * get(op.m, i) + (1 - op.beta1) * gradient;
      const double v = op.beta2 * get(op.v, i) + (1 - op.beta2) * gradient * gradient;
      const double master = get(op.master, i);
      const double change =
          m / correction1 / (std::sqrt(v / correction2) + op.epsilon) + static_cast<double>(range.weight_decay) * master;
      set(op.m, i, m);
      set(op.v, i, v);
      set(op.master, i, master - lr * change);
      set(op.weights, i, get(op.master, i));
    }
}

}  // namespace trireme
