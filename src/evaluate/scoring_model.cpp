#include "evaluate/scoring_model.h"

#include <set>

#include "backend/cost/cost_backend.h"
#include "base/units.h"
#include "comm/control.h"
#include "train/engine_checkpoint.h"
#include "train/fit.h"

namespace trireme {
namespace {

MeshPlace place_of(const ModelSettings& model, const World& world) {
  const int tp = narrow<int>(model.tensor_model_parallel_size), pp = narrow<int>(model.pipeline_model_parallel_size);
  return {.shape = {.tp = tp, .cp = 1, .dp = world.size() / (tp * pp), .pp = pp}, .rank = world.rank()};
}

RankShard shard_of(const Mesh& mesh) {
  return {.tp_rank = mesh.tp->rank(), .tp_size = mesh.tp->size(), .pp_rank = mesh.pp->rank(), .pp_size = mesh.pp->size()};
}

}  // namespace

ModelSettings for_scoring(ModelSettings model) {
  model.virtual_pipeline_model_parallel_size = model.context_parallel_size = 1;
  model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = 0;
  model.sequence_parallel = model.ub_tp_comm_overlap = false;
  model.activations_checkpoint_granularity = RecomputeGranularity::none;
  model.fp8 = {};
  return model;
}

ScoringModel::ScoringModel(const ModelSource& source, const Settings& settings, World& world)
    : settings_(settings),
      world_(world),
      place_(place_of(settings.model, world)),
      own_machine_(std::in_place, world, settings.trainer),
      own_mesh_(own_machine_->connect(place_)),
      backend_(own_machine_->backend()),
      mesh_(*own_mesh_),
      ranks_per_device_(own_machine_->ranks_per_device()),
      shard_(shard_of(mesh_)),
      layout_(FlatLayout::of(settings_.model, shard_)),
      dtype_(inference_dtype(settings.trainer.precision, backend_.has_f16())) {
  const int64_t word = size_of(DType::f32) + (dtype_ == DType::f32 ? 0 : size_of(dtype_));
  require_memory({{"parameters", layout_.count * word}}, memory());
  load(source);
}

ScoringModel::ScoringModel(const Settings& settings, World& world, const RunSetup& setup, const Engine& engine)
    : settings_(settings),
      world_(world),
      place_(setup.place),
      backend_(setup.backend),
      mesh_(setup.mesh),
      ranks_per_device_(setup.machine.ranks_per_device()),
      shard_(engine.layout().shard),
      layout_(engine.layout()),
      dtype_(activation_dtype(settings.trainer.precision)) {
  engine.weights().wait_for_all();
  weights_.emplace(layout_, settings_.model, backend_, engine.weights().views().flat());
}

Resources ScoringModel::memory() const { return resources_of(backend_, resources_of(world_), ranks_per_device_); }

void ScoringModel::load(const ModelSource& source) {
  Backend& backend = backend_;
  std::optional<Arena> loading;
  std::optional<Arena>& kept = dtype_ == DType::f32 ? weights_memory_ : loading;
  const Tensor exact = allocate(kept, "parameters", layout_.count * 4).take({layout_.count}, DType::f32);
  backend.run(kCompute, Fill{.value = 0, .out = exact});
  const FlatViews views(layout_, settings_.model, exact, layout_.offsets);
  source.load(parameter_tensors(layout_, views, backend));
  Tensor flat = exact;
  if (dtype_ != DType::f32) {
    flat = allocate(weights_memory_, "parameters", layout_.count * size_of(dtype_)).take({layout_.count}, dtype_);
    backend.run(kCompute, Copy{.from = exact, .to = flat});
    backend.synchronize(backend.record(kCompute, "weights_narrowed"));
  }
  weights_.emplace(layout_, settings_.model, backend, flat);
}

// Every shape is recorded; the largest needs of any are allocated once.
void ScoringModel::prepare(std::span<const ScoringShape> shapes) {
  const std::set<ScoringShape> different(shapes.begin(), shapes.end());
  int64_t most_rows = 1;
  for (const ScoringShape& shape : different) most_rows = std::max(most_rows, shape.B * shape.T);
  Backend& backend = backend_;
  scorer_.reset();
  arena_.reset();
  scratch_.reset();
  StepLog log(StepLog::Keep::no);
  CostBackend cost(backend, log);
  const CostMesh cost_mesh = CostMesh::of(place_, &log);
  Arena measuring("scoring");
  const Weights sizes(layout_, settings_.model, cost, Tensor{.dtype = dtype_, .shape = {layout_.weights.count}});
  Scorer recorded(settings_.model, shard_, dtype_, cost, cost_mesh.mesh, sizes, most_rows, measuring);
  for (const ScoringShape& shape : different) {
    ScoringBatch batch{.B = shape.B, .T = shape.T, .tokens = {}, .rows = {}, .targets = {}};
    batch.tokens.resize(static_cast<size_t>(shape.B * shape.T));
    batch.rows.resize(static_cast<size_t>(shape.M));
    batch.targets.resize(static_cast<size_t>(shape.M));
    recorded.score(batch);
  }
  const int64_t scratch = cost.scratch_peaks().compute;
  require_memory({{"batches", measuring.peak()}, {"scratch", scratch}}, memory());
  backend.set_scratch(kCompute, allocate(scratch_, "scratch", scratch).take({scratch}, DType::u8));
  scorer_.emplace(settings_.model, shard_, dtype_, backend, mesh_, *weights_, most_rows,
                  allocate(arena_, "scoring", measuring.peak()));
}

Arena& ScoringModel::allocate(std::optional<Arena>& arena, const char* name, int64_t bytes) {
  return arena.emplace(name, bytes, [&](int64_t size) { return backend_.allocate(size); });
}

}  // namespace trireme
