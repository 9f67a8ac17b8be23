// model.validation_tasks: a run scores the model that it trains on evaluation tasks.
#pragma once

#include "train/task_scorer.h"

namespace trireme {

// UserError, naming the key, if the tasks, their files or the layout of the run are not right for that. All ranks together.
std::unique_ptr<TaskScorer> make_task_scorer(const RunSetup& setup);

}  // namespace trireme
