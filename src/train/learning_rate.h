// Learning-rate schedules, step by step as the reference systems compute them.
#pragma once

#include "config/settings.h"

namespace trireme {

// The learning rate of the step after `steps_done` others, called step below.
//
// CosineAnnealing with constant_steps > 0:  step <= warmup: lr step/warmup;  then cosine from lr to min_lr over
//   decay = max_steps - constant - warmup steps;  later (or when decay <= 0) min_lr.
// CosineAnnealing with constant_steps = 0:  step < warmup: lr (step+1)/(warmup+1);  then cosine over max_steps - warmup;  later
// min_lr. constant:  lr, after the same warm-up as constant_steps = 0.
// CosineAnnealingExp:  CosineAnnealing with max_steps_for_lr_sched, where given, in place of max_steps.
double learning_rate(const OptimSettings& optim, int64_t max_steps, int64_t steps_done);

}  // namespace trireme
