// Scores of the model on evaluation tasks, while it trains.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "telemetry/step_record.h"

namespace trireme {

class Engine;
struct RunSetup;

class TaskScorer {
 public:
  virtual ~TaskScorer() = default;

  // All ranks together. Before the first step: takes the memory that scoring needs and gives it back. UserError or DoesNotFit if
  // the tasks cannot be scored.
  virtual void rehearse(const Engine& engine) = 0;
  // On rank 0 the scores; elsewhere nothing. Takes the scratch memory of the backend, which the caller sets again.
  virtual std::vector<TaskScore> score(const Engine& engine) = 0;
};

// Checks the tasks of the recipe and finds their files. UserError in one line.
using MakeTaskScorer = std::function<std::unique_ptr<TaskScorer>(const RunSetup& setup)>;

}  // namespace trireme
