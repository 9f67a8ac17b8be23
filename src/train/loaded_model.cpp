#include "train/loaded_model.h"

#include "backend/cost/cost_backend.h"
#include "config/settings_reader.h"
#include "config/yaml.h"
#include "train/engine_checkpoint.h"
#include "train/rank_machine.h"

namespace trireme {
namespace {

// A model trained with FP8 GEMMs runs here with GEMMs of its other type: checkpoints do not depend on it.
Settings without_fp8(Settings settings) {
  settings.model.fp8 = {};
  return settings;
}

}  // namespace

LoadedModel::LoadedModel(const StoredCheckpoint& checkpoint, const Settings& settings, int64_t capacity)
    : settings_(without_fp8(settings)), backend_(make_backend(settings.trainer)), layout_(FlatLayout::of(settings_.model)) {
  const DType dtype = inference_dtype(settings.trainer.precision, backend_->has_f16());
  measure(dtype, capacity);
  const Tensor masters = allocate(parameters_, "parameters", layout_.count * 4).take({layout_.count}, DType::f32);
  backend_->run(kCompute, Fill{.value = 0, .out = masters});
  load_checkpoint(checkpoint,
                  parameter_tensors(layout_, FlatViews(layout_, settings_.model, masters, layout_.offsets), *backend_));
  Tensor flat = masters;
  if (dtype != DType::f32) {
    flat = allocate(narrow_parameters_, "parameters", layout_.count * size_of(dtype)).take({layout_.count}, dtype);
    backend_->run(kCompute, Copy{.from = masters, .to = flat});
  }
  weights_.emplace(layout_, settings_.model, *backend_, flat);
  backend_->set_scratch(kCompute, allocate(scratch_, "scratch", scratch_bytes_).take({scratch_bytes_}, DType::u8));
  generator_.emplace(settings_.model, dtype, *backend_, mesh_, *weights_, capacity, allocate(arena_, "generation", arena_bytes_));
}

// The longest and the shortest pass, recorded: what they need is allocated once.
void LoadedModel::measure(DType dtype, int64_t capacity) {
  StepLog log(StepLog::Keep::no);
  CostBackend cost(*backend_, log);
  Arena measuring("generation");
  const Weights shapes(layout_, settings_.model, cost, Tensor{.dtype = dtype, .shape = {layout_.count}});
  Generator generator(settings_.model, dtype, cost, mesh_, shapes, capacity, measuring);
  generator.feed(std::vector<int32_t>(static_cast<size_t>(capacity - 1)));
  generator.feed(std::vector<int32_t>(1));
  arena_bytes_ = measuring.peak();
  scratch_bytes_ = cost.scratch_peaks().compute;
}

Arena& LoadedModel::allocate(std::optional<Arena>& arena, const char* name, int64_t bytes) {
  return arena.emplace(name, bytes, [&](int64_t size) { return backend_->allocate(size); });
}

Settings settings_of(const StoredCheckpoint& checkpoint) {
  return read_settings(read_yaml(checkpoint.manifest.info.settings, checkpoint.folder.string())).settings;
}

}  // namespace trireme
