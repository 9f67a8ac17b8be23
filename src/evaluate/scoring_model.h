// A trained model on the ranks of a job, to score text with: its weights in memory of their own, cut over tensor-parallel ranks
// and pipeline stages, with a copy for every group of data-parallel ranks.
#pragma once

#include <functional>
#include <optional>

#include "model/scorer.h"
#include "train/engine.h"
#include "train/fit.h"
#include "train/model_source.h"
#include "train/rank_machine.h"
#include "train/run_setup.h"

namespace trireme {

// The same model without what is only for training: its layout but for tensor and pipeline parallelism, recompute, FP8 GEMMs.
ModelSettings for_scoring(ModelSettings model);

// Rows and asked rows of a batch; all that its memory depends on.
struct ScoringShape {
  int64_t B = 0, T = 0, M = 0;
  auto operator<=>(const ScoringShape&) const = default;  // NOLINT(modernize-use-nullptr): false positive in generated code
};

class ScoringModel {
 public:
  // All ranks make one together, with the settings of the source but for layout and precision. The layout must divide the ranks
  // and the model.
  ScoringModel(const ModelSource& source, const Settings& settings, World& world);
  // The model that a run trains, in the run's own memory: all of its ranks together. `settings` are the run's, for scoring.
  ScoringModel(const Settings& settings, World& world, const RunSetup& setup, const Engine& engine);
  ScoringModel(const ScoringModel&) = delete;
  ScoringModel& operator=(const ScoringModel&) = delete;

  int copy() const { return mesh_.dp->rank(); }  // which copy of the model this rank is part of
  int copies() const { return mesh_.dp->size(); }
  bool reports() const { return shard_.last_stage() && shard_.tp_rank == 0; }  // one rank of each copy
  const Backend& backend() const { return backend_; }

  // Allocates what batches of these shapes need. DoesNotFit if that is more than the memory.
  void prepare(std::span<const ScoringShape> shapes);
  // As Scorer::score; the shape must be one of those prepared.
  std::span<const TokenScore> score(const ScoringBatch& batch) { return scorer_->score(batch); }

 private:
  void load(const ModelSource& source);
  Arena& allocate(std::optional<Arena>& arena, const char* name, int64_t bytes);
  Resources memory() const;

  const Settings settings_;
  World& world_;
  MeshPlace place_;
  std::optional<RankMachine> own_machine_;
  std::optional<Mesh> own_mesh_;
  Backend& backend_;
  const Mesh& mesh_;
  int ranks_per_device_;
  RankShard shard_;
  FlatLayout layout_;
  DType dtype_;
  std::optional<Arena> weights_memory_, scratch_, arena_;
  std::optional<Weights> weights_;
  std::optional<Scorer> scorer_;
};

}  // namespace trireme
