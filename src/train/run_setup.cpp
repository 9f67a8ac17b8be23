#include "train/run_setup.h"

#include <fmt/ranges.h>

#include "base/units.h"
#include "comm/control.h"
#include "comm/timed.h"
#include "data/open/open_dataset.h"
#include "telemetry/console.h"
#include "train/engine_checkpoint.h"
#include "train/fit.h"
#include "train/resume_check.h"
#include "train/run_files.h"
#include "train/run_size.h"

namespace trireme {
namespace {

DevicePeak peak_of(Backend& backend, const Settings& settings) {
  const DType dtype = activation_dtype(settings.trainer.precision);
  const PeakPrecision precision = settings.model.fp8.enabled ? PeakPrecision::fp8 : PeakPrecision::bf16;
  if (const std::string device = backend.device_name(); !device.empty()) {
    const auto known = dtype == DType::bf16 ? device_peak(device, precision) : std::nullopt;
    return known.value_or(DevicePeak{.name = fmt::format("{}, {}: not known", device, trireme::name_of(dtype))});
  }
  return {.name = fmt::format("measured: {} multiply-adds on registers", trireme::name_of(dtype)),
          .tflops = backend.measure_peak_tflops(dtype)};
}

MeshPlace place_in(const World& world, const Settings& settings) {
  const ModelSettings& model = settings.model;
  return {.shape = {.tp = narrow<int>(model.tensor_model_parallel_size),
                    .cp = narrow<int>(model.context_parallel_size),
                    .dp = narrow<int>(settings.data_parallel_size()),
                    .pp = narrow<int>(model.pipeline_model_parallel_size)},
          .rank = world.rank()};
}

}  // namespace

RunSetup::RunSetup(RunRequest asked, World& ranks)
    : request(std::move(asked)),
      world(ranks),
      place(place_in(world, settings)),
      machine(world, settings.trainer),
      timed_backend(request.trace_ops == TraceOps::yes || request.predict || model.profile.enabled
                        ? std::make_unique<TimedBackend>(machine.backend(), trace)
                        : nullptr),
      backend(timed_backend ? *timed_backend : machine.backend()),
      mesh(timed_backend ? timed(machine.connect(place), machine.backend(), trace) : machine.connect(place)),
      agreement(world),
      rates{.formula = FlopsFormula::full,
            .flops_per_sample = model_flops_per_sample(flops_dimensions(model), FlopsFormula::full),
            .devices = ceil_div(mesh.size(), machine.ranks_per_device()),
            .peak = peak_of(machine.backend(), settings),
            .causal_flops_per_sample = model_flops_per_sample(flops_dimensions(model), FlopsFormula::causal)},
      prediction(request.predict ? std::optional(request.predict(machine.backend().device_name())) : std::nullopt),
      folder(choose_folder()) {
  require_device(settings, backend);
  if (request.tune_gemms == TuneGemms::yes) start_tuning();
  require_files_to_copy(settings.exp_manager);
  require_run_to_resume();
  require_resumable();
  if (is_first()) require_same_mathematics();
  open_model_to_restore();
  plan_all_memory();  // before the data, because it is quick: indexing the samples of a long run takes a while
  open_data();
  if (!backend.device_memory()) add_memory_of_program();
}

void RunSetup::tell(Severity severity, std::string_view text) const {
  if (is_first()) print_message(severity, text);
}

// Of the ranks that read the same tokens one counts their targets.
bool RunSetup::counts_targets() const { return mesh.tp->rank() == 0 && mesh.pp->rank() == 0; }

int64_t RunSetup::micro_batches_of(int64_t global_batch) const {
  return div_exact(global_batch, model.micro_batch_size * mesh.dp->size());
}

SamplerLayout RunSetup::sampler_layout() const {
  return {.micro_batch = model.micro_batch_size,
          .rank = mesh.dp->rank(),
          .size = mesh.dp->size(),
          .cut = {.rank = mesh.cp->rank(), .ranks = mesh.cp->size()},
          .documents = documents};
}

EngineSettings RunSetup::engine_settings() const {
  return {.model = settings.model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
}

MemoryUse RunSetup::memory_in_use() const {
  const auto device = backend.device_memory();
  return device ? MemoryUse{.now = device->used, .peak = device->used} : memory_use();  // a device's is allocated once
}

// ------------------------------------------------------------------------------------------------------------------ checks

void RunSetup::require_run_to_resume() const {
  const ExpManagerSettings& logs = settings.exp_manager;
  if (!logs.resume_if_exists || logs.resume_ignore_no_checkpoint || !checkpoint_steps(folder.checkpoints()).empty()) return;
  const std::string searched = folder.searched().string();
  throw UserError("{} to resume; leave out --resume, or set exp_manager.resume_ignore_no_checkpoint=true to start over",
                  std::filesystem::exists(searched) ? fmt::format("there is no checkpoint in {}", searched)
                                                    : fmt::format("there is no run {}, so no checkpoint", searched));
}

void RunSetup::require_resumable() const {
  if (!settings.exp_manager.resume_if_exists) return;
  const std::vector<int64_t> steps = checkpoint_steps(folder.checkpoints());
  if (steps.empty()) return;
  StoredCheckpoint newest;
  try {
    newest = open_checkpoint(folder.checkpoints() / checkpoint_name(steps.back()));
  } catch (const Failure&) {
    return;  // damaged: whoever loads looks for an older one
  }
  const std::string name = "the checkpoint to resume from, " + newest.folder.string() + ",";
  require_same_parameters(newest, model, name);
  if (const int64_t step = newest.manifest.info.step; step > settings.trainer.max_steps)
    throw UserError("trainer.max_steps={}: {} is of step {}; use at least that, or another exp_manager.explicit_log_dir",
                    settings.trainer.max_steps, name, step);
}

// A checkpoint that cannot be read is said when it is loaded.
void RunSetup::require_same_mathematics() const {
  if (!settings.exp_manager.resume_if_exists) return;
  std::optional<StoredCheckpoint> newest;
  try {
    newest = find_latest(folder.checkpoints()).checkpoint;
  } catch (const Failure&) {
    return;
  }
  if (!newest || newest->manifest.info.state.contains(kWeightsOnly)) return;
  const CheckpointInfo& info = newest->manifest.info;
  const std::vector<std::string> changed = changed_mathematics(info.settings, request.settings_text);
  if (changed.empty()) return;
  const std::string line =
      fmt::format("{} was trained with other settings: {}", folder.path().string(), fmt::join(changed, ", "));
  if (request.changed_settings == ChangedSettings::accepted) return tell(Severity::warning, line);
  throw UserError("{}; give --changed to continue from its step {} all the same, or name a run of its own with exp_manager.name",
                  line, info.step);
}

void RunSetup::open_model_to_restore() {
  if (model.restore_from_path.empty()) return;
  restored = open_model_source(model.restore_from_path);
  for (const std::string& line : restored->notes) tell(Severity::warning, line);
  restored->require_same_parameters(model, "model.restore_from_path");
  if (!model.peft.restore_from_path.empty()) adapter.emplace(model.peft.restore_from_path, settings, lora_targets(model).size());
}

void RunSetup::start_tuning() const {
  const auto require = [](bool condition, std::string_view what, const std::string& instead) {
    if (!condition) throw UserError("--tune needs {}, and this run {}; leave it out", what, instead);
  };
  require(!backend.device_name().empty(), "a GPU", "is on " + backend.description());
  require(mesh.size() == 1, "a run of one rank", fmt::format("has {}", mesh.size()));
  require(model.cuda_graph != CudaGraph::no, "CUDA graphs", "has model.enable_cuda_graph=false");
  backend.tune_repeated_work();
}

// ------------------------------------------------------------------------------------------------------------------ folder

RunFolder RunSetup::choose_folder() const {
  const ExpManagerSettings& logs = settings.exp_manager;
  if (!is_first()) return RunFolder::shared(control.share("run folder", ""));
  RunFolder chosen = RunFolder::choose(logs, logs.resume_if_exists ? Resume::yes : Resume::no);
  control.share("run folder", chosen.path().string());
  return chosen;
}

std::filesystem::path RunSetup::local_checkpoints() const {
  const std::string& local = settings.exp_manager.checkpoint.local_dir;
  return local.empty() ? std::filesystem::path() : local_store_folder(local, folder.path());
}

void RunSetup::claim_folder() {
  if (is_first()) folder.claim();
  // Its name may have changed: somebody else was there first.
  const std::string path = control.share("claimed folder", folder.path().string());
  if (is_first()) return;
  folder = RunFolder::shared(path);
  if (!std::filesystem::is_directory(path))
    throw UserError("exp_manager: the run's folder {}, made by {}, is not there on {}; use one that all machines share", path,
                    control.name_of(0), control.places()[static_cast<size_t>(world.rank())].host);
}

// ------------------------------------------------------------------------------------------------------------------ memory

void RunSetup::plan_all_memory() {
  const Resources host = resources_of(world), device = resources_of(backend, host, machine.ranks_per_device());
  if (world.size() == 1) require_fit(settings, device);  // several ranks have a part of the model each
  plan = plan_memory(engine_settings(), backend, micro_batches_of(model.global_batch_size), place);
  if (const int64_t bytes = plan.arenas.host_states.peak(); bytes > 0) other_memory.emplace_back("host states", bytes);
  if (settings.exp_manager.create_checkpoint_callback) other_memory.emplace_back("checkpoint copy", plan.checkpoint_copy);
  auto memory = plan.rows();
  if (const auto used = backend.device_memory()) {
    require_memory(memory, device);
    require_memory(other_memory, host);
    other_memory = {{"driver and libraries", used->used}};  // the rest is in the host's memory
    return;
  }
  memory.insert(memory.end(), other_memory.begin(), other_memory.end());
  require_memory(memory, host);
}

void RunSetup::add_memory_of_program() {
  // What the program still grows by: code not yet touched, stacks of its threads, log buffers. Measured: 5 to 9 MiB.
  constexpr int64_t kLaterGrowth = int64_t{6} << 20;
  const int64_t buffers =
      world.streams() == nullptr ? 0 : world.transport().buffer_bytes(ranks_on_host(control.places(), world.rank()));
  other_memory.emplace_back("program and data", resident_bytes() + kLaterGrowth + buffers);
}

// ------------------------------------------------------------------------------------------------------------------ data

void RunSetup::open_data() {
  // What the first rank indexes the others find.
  const bool is_cached = model.data.data_impl == DataImpl::mmap;
  if (is_cached && !is_first()) control.share("data", "");
  const DatasetRequest wanted = training_request(settings);
  const int64_t samples = *wanted.samples_needed[static_cast<size_t>(Split::train)];
  constexpr int64_t kManySamples = 5'000'000;
  if (samples > kManySamples)
    tell(Severity::info, fmt::format("indexing {} training samples; fewer trainer.max_steps start sooner",
                                     format_count(static_cast<double>(samples))));
  DatasetsBySplit datasets = open_datasets(model.data, wanted, [&](const std::string& line) { tell(Severity::warning, line); });
  documents = document_rules(model.data, model.tokenizer, model.vocab_size);
  train_data = std::move(datasets[static_cast<size_t>(Split::train)]);
  validation_data = std::move(datasets[static_cast<size_t>(Split::validation)]);
  if (is_cached && is_first()) control.share("data", "");

  const TrainerSettings& trainer = settings.trainer;
  validation_batches = trainer.limit_val_batches;
  if (validation_data == nullptr || trainer.limit_val_share == 0) return;
  const int64_t batches = validation_data->size() / model.global_batch_size;
  validation_batches = static_cast<int64_t>(static_cast<double>(batches) * trainer.limit_val_share);
  if (validation_batches == 0)
    throw UserError(
        "trainer.limit_val_batches={}: the validation data has {} samples, less than a batch of {}; use a whole number",
        trainer.limit_val_share, validation_data->size(), model.global_batch_size);
}

}  // namespace trireme
