// Before anything is allocated, one training step is recorded on the cost backend. The recording gives the place of every tensor,
// the sizes of all arenas, the FLOPs and bytes of a step, and the memory table at the start of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cost/cost_backend.h"
#include "train/engine.h"
#include "train/placement.h"

namespace trireme {

struct MemoryPlan {
  Arenas arenas = Arenas::measuring();  // peaks are what the run needs
  StepPlan step;                        // places of the tensors within a step, and working memory of ops
  ScratchPeaks scratch;
  std::vector<RecordedAction> recorded;  // what the placement follows from
  std::vector<Action> schedule;          // the recorded step
  int64_t communication = 0;             // working memory of collectives
  int64_t checkpoint_copy = 0;           // what this rank saves, if the run has checkpoints; not in rows()
  std::string holdings;                  // what this rank holds of the model: "embedding, layers 0-5"
  double flops = 0;                      // of one step: what is executed, recompute included
  int64_t bytes_moved = 0;               // of one step: operands read and written

  int64_t activations() const { return arenas.activations.peak() + step.kept; }         // kept between actions
  int64_t workspace() const { return arenas.scratch.peak() + step.bytes - step.kept; }  // used within one

  // Rows of the table: label and bytes, in the order of a step.
  std::vector<std::pair<std::string, int64_t>> rows() const;
  int64_t total() const;
};

// Records one step with `micro_batches` micro-batches, as the rank at `place` would run it on `target`. `keep`, if given,
// receives every call of the step.
MemoryPlan plan_memory(const EngineSettings& settings, const Backend& target, int64_t micro_batches, const MeshPlace& place = {},
                       StepLog* keep = nullptr);

// The memory of a run, allocated as planned, that of the backend's ops handed over. The plan must outlive it.
class RunMemory {
 public:
  RunMemory(const MemoryPlan& plan, Backend& backend);
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;

  void lend_scratch();  // to the backend's ops; again after somebody else has lent other memory

  Arenas arenas;

 private:
  const MemoryPlan& plan_;
  Backend& backend_;
  Arena block_;  // of the step

 public:
  PlannedMemory step;
};

// The table as text; `extra` rows (what the process already uses, the checkpoint copy) come last and count in the sum.
std::string memory_table(const MemoryPlan& plan, const std::vector<std::pair<std::string, int64_t>>& extra);

}  // namespace trireme
