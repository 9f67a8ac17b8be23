#include "train/run_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/control.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

using WantedTensors = std::function<std::vector<CheckpointTensor>(const CheckpointManifest&)>;

// The newest checkpoint in the local folders of the machines, if it is newer than those of the run's folder and every rank finds
// its part on its machine.
NewestCheckpoint load_newest_local(const RunSetup& setup, const WantedTensors& wanted) {
  NewestCheckpoint found;
  const std::filesystem::path folder = setup.local_checkpoints();
  if (folder.empty()) return found;
  const auto newest_in = [](const std::filesystem::path& place) {
    const std::vector<int64_t> steps = checkpoint_steps(place);
    return steps.empty() ? -1 : steps.back();
  };
  int64_t step = newest_in(folder);
  if (step <= newest_in(setup.folder.checkpoints())) step = -1;
  step = std::stoll(setup.control.share("local step", fmt::format("{}", step)));
  if (step < 0) return found;
  const std::string name = checkpoint_name(step);
  std::string trouble;
  StoredCheckpoint checkpoint;
  try {
    checkpoint = open_checkpoint(folder / name, ShardsExpected::of_this_machine);
    load_checkpoint(checkpoint, wanted(checkpoint.manifest));
  } catch (const JobEnded&) {
    throw;
  } catch (const std::runtime_error& error) {
    trouble = error.what();
  }
  trouble = setup.control.first_of("local checkpoint", trouble);
  if (trouble.empty())
    found.checkpoint = std::move(checkpoint);
  else
    found.skipped.push_back(fmt::format("the local checkpoint of step {} cannot be used: {}", step, trouble));
  return found;
}

// The newest checkpoint of the run that is whole; false: there is none to resume from.
bool load_checkpoint_if_there(RunState& state, RunSetup& setup, RunLogs& logs) {
  if (!setup.settings.exp_manager.resume_if_exists) return false;
  ScalesFound scales = ScalesFound::yes;
  const auto wanted = [&](const CheckpointManifest& manifest) {
    if (manifest.info.state.contains(kWeightsOnly))
      throw UserError("weights without optimizer state cannot be resumed; start a run with model.restore_from_path={}",
                      setup.folder.path().string());
    std::vector<CheckpointTensor> tensors = checkpoint_tensors(*state.engine, CheckpointUse::load);
    if (state.engine->lora() != nullptr)
      std::erase_if(tensors, [](const CheckpointTensor& tensor) { return is_made_from_adapters(tensor.name); });
    scales = keep_scales_if_there(manifest, tensors);
    return tensors;
  };
  NewestCheckpoint newest = load_newest_local(setup, wanted);
  for (const std::string& line : std::exchange(newest.skipped, {})) logs.warn(line);
  const bool is_local = newest.checkpoint.has_value();
  if (!is_local) newest = load_newest(setup.folder.checkpoints(), wanted, &setup.control);
  for (const std::string& line : newest.skipped) logs.warn(line);
  if (!newest.checkpoint) return false;
  const CheckpointInfo& info = newest.checkpoint->manifest.info;
  state.engine->restore_updates(info.state.at("updates").get<int64_t>());
  if (scales == ScalesFound::no) {
    state.engine->forget_scales();
    logs.warn("FP8 scales are reset: the checkpoint was saved without FP8, or with other settings of it");
  }
  state.step = info.step;
  if (setup.settings.trainer.precision == Precision::f16)
    state.overflows = std::max<int64_t>(info.step - info.state.at("updates").get<int64_t>(), 0);
  state.saved_step = is_local ? -1 : info.step;  // the run's folder does not have it yet
  state.consumed_samples = info.consumed_samples;
  state.validation_loss = info.validation_loss;
  return true;
}

Retention retention_of(const RunSetup& setup) {
  const CheckpointSettings& keep = setup.settings.exp_manager.checkpoint;
  return {.keep_last = keep.keep_last, .keep_best = keep.save_top_k};
}

// An attempt that was killed after a save, before it removed the oldest checkpoint, may have left no room for the next save.
void remove_what_was_left(const RunSetup& setup, int64_t newest, RunLogs& logs) {
  if (!setup.is_first()) return;
  try {
    remove_old_checkpoints(setup.folder.checkpoints(), newest, retention_of(setup));
  } catch (const Failure& failure) {
    logs.warn(failure.what());
  }
}

bool is_first_on_machine(const RunSetup& setup) { return local_rank_of(setup.control.places(), setup.world.rank()) == 0; }

std::unique_ptr<LocalStore> make_local_store(const RunSetup& setup, const Retention& keep) {
  const std::filesystem::path folder = setup.local_checkpoints();
  if (folder.empty()) return nullptr;
  const auto leader = is_first_on_machine(setup) ? LocalStore::Leader::yes : LocalStore::Leader::no;
  // What an earlier run of this folder has left.
  if (!setup.settings.exp_manager.resume_if_exists && leader == LocalStore::Leader::yes) remove_tree(folder);
  return std::make_unique<LocalStore>(folder, setup.folder.checkpoints(), leader, keep, setup.control);
}

}  // namespace

void start_run(RunState& state, RunSetup& setup, RunLogs& logs) {
  state.memory.emplace(setup.plan, setup.backend);
  state.engine =
      std::make_unique<Engine>(setup.engine_settings(), setup.backend, setup.mesh, state.memory->arenas, state.memory->step);
  if (setup.settings.exp_manager.create_checkpoint_callback) {
    const Retention retention = retention_of(setup);
    state.writer =
        std::make_unique<CheckpointWriter>(setup.folder.checkpoints(), checkpoint_tensors(*state.engine, CheckpointUse::save),
                                           retention, &setup.control, make_local_store(setup, retention));
  }
  state.engine->initialise_weights();  // also clears what a checkpoint does not hold: the padding
  const bool has_base = state.engine->lora() != nullptr;
  if (has_base) {
    setup.restored->load(parameter_tensors(*state.engine));
    state.engine->lora()->adopt_base();
  }
  if (load_checkpoint_if_there(state, setup, logs)) {
    logs.say(fmt::format("resumed from step {}, {} samples consumed", state.step, state.consumed_samples));
    if (state.writer != nullptr && state.saved_step == state.step) remove_what_was_left(setup, state.step, logs);
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
