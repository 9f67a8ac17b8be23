// What a run holds while it trains, and how far it has come.
#pragma once

#include <memory>
#include <optional>

#include "data/batch/loader.h"
#include "train/engine.h"
#include "train/run_logs.h"
#include "train/run_setup.h"

namespace trireme {

struct RunState {
  std::optional<RunMemory> memory;
  std::unique_ptr<Engine> engine;
  std::optional<Loader> loader;
  std::unique_ptr<CheckpointWriter> writer;  // none where the run saves no checkpoints

  int64_t step = 0;        // steps started
  int64_t first_step = 0;  // of this process
  int64_t consumed_samples = 0;
  int64_t overflows = 0;                  // steps since the beginning of the run that fp16 skipped
  int64_t saved_step = -1;                // of the last checkpoint
  std::optional<double> validation_loss;  // of the last validation
};

// Fills a state in place, so that what it holds stays with the caller when this throws. Allocates, then initialises the weights
// or loads them from the newest checkpoint of the run, or from model.restore_from_path.
void start_run(RunState& state, RunSetup& setup, RunLogs& logs);

}  // namespace trireme
