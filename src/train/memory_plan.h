// Before anything is allocated, one training step is recorded on the cost backend. From the recording follow the sizes of all
// arenas, the FLOPs and bytes of a step, and the memory table that a run prints when it starts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cost/cost_backend.h"
#include "train/engine.h"

namespace trireme {

struct MemoryPlan {
  Arenas arenas = Arenas::measuring();  // peaks are what the run needs
  ScratchPeaks ops;                     // working memory of the backend's ops
  int64_t communication = 0;            // working memory of collectives
  int64_t checkpoint_copy = 0;          // what this rank saves, if the run has checkpoints; not in rows()
  std::string holdings;                 // what this rank holds of the model: "embedding, layers 0-5"
  double flops = 0;                     // of one step: what is executed, recompute included
  int64_t bytes_moved = 0;              // of one step: operands read and written

  // Working memory of ops and blocks, and the logits, in one block of memory. Logits lie behind what the ops of the loss head
  // need; attention, which may need much more, and the rest of a block do not run while they are there, and work in their place.
  // What passes between other ops than attention lies where attention works. Weight products that go on beside all of that, but
  // not beside the loss head, work behind it.
  int64_t logits_at() const { return round_up(ops.others, Arena::kAlignment); }
  int64_t passing_at() const { return logits_at(); }
  int64_t work_at() const { return round_up(std::max(ops.attention, passing_at() + arenas.passing.peak()), Arena::kAlignment); }
  int64_t beside_at() const { return round_up(work_at() + arenas.work.peak(), Arena::kAlignment); }
  int64_t shared_scratch() const { return std::max(logits_at() + arenas.logits.peak(), beside_at() + ops.beside); }

  // Rows of the table: label and bytes, in the order of a step.
  std::vector<std::pair<std::string, int64_t>> rows() const;
  int64_t total() const;
};

// Records one step with `micro_batches` micro-batches, as the rank at `place` would run it on `target`; what the step asks for,
// call by call, goes to `keep`.
MemoryPlan plan_memory(const EngineSettings& settings, const Backend& target, int64_t micro_batches, const MeshPlace& place = {},
                       StepLog* keep = nullptr);

// The memory of a run, allocated as planned, that of the backend's ops handed over.
struct RunMemory {
  RunMemory(const MemoryPlan& plan, Backend& backend);

  Arena shared;  // in it lie logits and work of
  Arenas arenas;
};

// The table as text; `extra` rows (what the process already uses, the checkpoint copy) come last and count in the sum.
std::string memory_table(const MemoryPlan& plan, const std::vector<std::pair<std::string, int64_t>>& extra);

}  // namespace trireme
