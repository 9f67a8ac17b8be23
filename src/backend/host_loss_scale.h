// The ops of the loss scale on host memory: a few scalars, the same on every host backend.
#pragma once

#include <cmath>

#include "backend/ops.h"

namespace trireme {

inline void scale_loss(const ScaleLoss& op) {
  double* scalars = op.scalars.as<double>();
  scalars[static_cast<size_t>(StepScalar::inverse_targets)] *= scalars[static_cast<size_t>(StepScalar::loss_scale)];
}

inline void update_loss_scale(const UpdateLossScale& op) {
  const auto slot = [&](StepScalar which) -> double& { return op.scalars.as<double>()[static_cast<size_t>(which)]; };
  double &scale = slot(StepScalar::loss_scale), &growth_steps = slot(StepScalar::growth_steps),
         &patience = slot(StepScalar::patience);
  if (slot(StepScalar::finite) == 0) {
    growth_steps = 0;
    patience -= 1;
    if (patience <= 0) scale *= UpdateLossScale::kBackoff;
    return;
  }
  patience = static_cast<double>(op.hysteresis);
  growth_steps += 1;
  if (growth_steps < static_cast<double>(op.growth_interval)) return;
  growth_steps = 0;
  if (std::isfinite(static_cast<float>(scale * UpdateLossScale::kGrowth))) scale *= UpdateLossScale::kGrowth;
}

}  // namespace trireme
