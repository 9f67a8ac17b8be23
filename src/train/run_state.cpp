#include "train/run_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

// The newest checkpoint of the run that is whole; false: there is none to resume from.
bool load_checkpoint_if_there(RunState& state, RunSetup& setup, RunLogs& logs) {
  if (!setup.settings.exp_manager.resume_if_exists) return false;
  ScalesFound scales = ScalesFound::yes;
  const auto wanted = [&](const CheckpointManifest& manifest) {
    if (manifest.info.state.contains(kWeightsOnly))
      throw UserError("weights without optimizer state cannot be resumed; start a run with model.restore_from_path={}",
                      setup.folder.path().string());
    std::vector<CheckpointTensor> tensors = checkpoint_tensors(*state.engine, CheckpointUse::load);
    // With LoRA the weights there are merged: they are made again from those of the model that the run began with.
    if (state.engine->lora() != nullptr)
      std::erase_if(tensors, [](const CheckpointTensor& tensor) { return !is_adapter_state(tensor.name); });
    scales = keep_scales_if_there(manifest, tensors);
    return tensors;
  };
  const NewestCheckpoint newest = load_newest(setup.folder.checkpoints(), wanted, &setup.control);
  for (const std::string& line : newest.skipped) logs.warn(line);
  if (!newest.checkpoint) return false;
  const CheckpointInfo& info = newest.checkpoint->manifest.info;
  state.engine->restore_updates(info.state.at("updates").get<int64_t>());
  if (scales == ScalesFound::no) {
    state.engine->forget_scales();
    logs.warn("FP8 scales are reset: the checkpoint was saved without FP8, or with other settings of it");
  }
  state.step = state.saved_step = info.step;
  state.consumed_samples = info.consumed_samples;
  state.validation_loss = info.validation_loss;
  return true;
}

}  // namespace

void start_run(RunState& state, RunSetup& setup, RunLogs& logs) {
  state.memory.emplace(setup.plan, setup.backend);
  state.engine =
      std::make_unique<Engine>(setup.engine_settings(), setup.backend, setup.mesh, state.memory->arenas, state.memory->step);
  if (setup.settings.exp_manager.create_checkpoint_callback) {
    const CheckpointSettings& keep = setup.settings.exp_manager.checkpoint;
    state.writer =
        std::make_unique<CheckpointWriter>(setup.folder.checkpoints(), checkpoint_tensors(*state.engine, CheckpointUse::save),
                                           Retention{.keep_last = keep.keep_last, .keep_best = keep.save_top_k}, &setup.control);
  }
  state.engine->initialise_weights();  // also clears what a checkpoint does not hold: the padding
  const bool has_base = state.engine->lora() != nullptr;
  if (has_base) {
    setup.restored->load(parameter_tensors(*state.engine));
    state.engine->lora()->adopt_base();
  }
  if (load_checkpoint_if_there(state, setup, logs)) {
    logs.say(fmt::format("resumed from step {}, {} samples consumed", state.step, state.consumed_samples));
  } else if (setup.restored) {
    if (!has_base) setup.restored->load(parameter_tensors(*state.engine));
    if (setup.adapter) setup.adapter->load(state.engine->lora()->adapter_tensors());
    state.engine->restore_updates(0);
  }
  state.first_step = state.step;
  state.loader.emplace(*setup.train_data, setup.sampler_layout(), state.consumed_samples,
                       setup.micro_batches_of(setup.model.global_batch_size) + 2,
                       std::max<int64_t>(setup.model.data.num_workers, 1));
}

}  // namespace trireme
