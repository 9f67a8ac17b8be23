#include <fmt/ranges.h>

#include <cstdio>

#include "base/build_info.h"
#include "base/process.h"
#include "base/units.h"
#include "comm/control.h"
#include "comm/timed.h"
#include "data/open/open_dataset.h"
#include "train/batch_ramp.h"
#include "train/engine_checkpoint.h"
#include "train/fit.h"
#include "train/resume_check.h"
#include "train/run_files.h"
#include "train/run_size.h"
#include "train/trainer.h"

namespace trireme {
namespace {

EngineSettings engine_settings(const Settings& settings) {
  return {.model = settings.model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
}

DevicePeak peak_of(Backend& backend, const Settings& settings) {
  const DType dtype = activation_dtype(settings.trainer.precision);
  const PeakPrecision products = settings.model.fp8.enabled ? PeakPrecision::fp8 : PeakPrecision::bf16;
  if (const std::string device = backend.device_name(); !device.empty()) {
    const auto known = dtype == DType::bf16 ? device_peak(device, products) : std::nullopt;
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

const char* precision_text(const Settings& settings) {
  if (settings.trainer.precision == Precision::f32) return "f32";
  return settings.model.fp8.enabled ? "FP8 linear layers in bf16 blocks with f32 masters" : "bf16 with f32 masters";
}

}  // namespace

Trainer::Trainer(RunRequest request, World& world)
    : request_(std::move(request)),
      world_(world),
      place_(place_in(world, settings_)),
      machine_(world, settings_.trainer),
      timed_(request_.trace_ops == TraceOps::yes || model_.profile.enabled
                 ? std::make_unique<TimedBackend>(machine_.backend(), trace_)
                 : nullptr),
      backend_(timed_ ? timed_.get() : &machine_.backend()),
      mesh_(timed_ ? timed(machine_.connect(place_), machine_.backend(), trace_) : machine_.connect(place_)),
      agreement_(world),
      rates_{.formula = FlopsFormula::full,
             .flops_per_sample = model_flops_per_sample(flops_dimensions(model_), FlopsFormula::full),
             .devices = ceil_div(mesh_.size(), machine_.ranks_per_device()),
             .peak = peak_of(machine_.backend(), settings_),
             .causal_flops_per_sample = model_flops_per_sample(flops_dimensions(model_), FlopsFormula::causal)},
      folder_(choose_folder()) {
  const ExpManagerSettings& logs = settings_.exp_manager;
  require_device(model_, *backend_);
  if (request_.tune_products == TuneProducts::yes) start_tuning();
  require_files_to_copy(logs);
  require_run_to_resume();
  require_resumable();
  if (is_first()) require_same_mathematics();
  const ModelSettings& m = model_;
  if (!m.restore_from_path.empty()) {
    NewestCheckpoint named = open_named_checkpoint(m.restore_from_path);
    for (const std::string& line : named.skipped) warn(line);
    require_same_parameters(*named.checkpoint, m, "model.restore_from_path=" + named.checkpoint->folder.string());
    restored_ = std::move(named.checkpoint);
  }
  const Resources host = resources_of(world_), device = resources_of(*backend_, host, machine_.ranks_per_device());
  if (world_.size() == 1) require_fit(settings_, device);  // several ranks have a part of the model each
  // First, because it is quick: indexing the samples of a long run takes a while.
  plan_ = plan_memory(engine_settings(settings_), *backend_, micro_batches_of(m.global_batch_size), place_);
  if (settings_.exp_manager.create_checkpoint_callback) other_memory_.emplace_back("checkpoint copy", plan_.checkpoint_copy);
  auto memory = plan_.rows();
  if (const auto used = backend_->device_memory()) {
    require_memory(memory, device);
    require_memory(other_memory_, host);
    other_memory_ = {{"driver and libraries", used->used}};  // the rest is in the host's memory
    open_data();
    return;
  }
  memory.insert(memory.end(), other_memory_.begin(), other_memory_.end());
  require_memory(memory, host);
  open_data();
  // What the program still grows by: code not yet touched, stacks of its threads, log buffers. Measured: 5 to 9 MiB.
  constexpr int64_t kLaterGrowth = int64_t{6} << 20;
  const int64_t buffers =
      world_.streams() == nullptr ? 0 : world_.transport().buffer_bytes(ranks_on_host(control_.places(), world_.rank()));
  other_memory_.emplace_back("program and data", resident_bytes() + kLaterGrowth + buffers);
}

void Trainer::require_resumable() {
  if (!settings_.exp_manager.resume_if_exists) return;
  const std::vector<int64_t> steps = checkpoint_steps(folder_.checkpoints());
  if (steps.empty()) return;
  StoredCheckpoint newest;
  try {
    newest = open_checkpoint(folder_.checkpoints() / checkpoint_name(steps.back()));
  } catch (const Failure&) {
    return;  // damaged: whoever loads looks for an older one
  }
  const std::string name = "the checkpoint to resume from, " + newest.folder.string() + ",";
  require_same_parameters(newest, model_, name);
  if (const int64_t step = newest.manifest.info.step; step > settings_.trainer.max_steps)
    throw UserError("trainer.max_steps={}: {} is of step {}; use at least that, or another exp_manager.explicit_log_dir",
                    settings_.trainer.max_steps, name, step);
}

void Trainer::start_tuning() {
  const auto require = [](bool condition, std::string_view what, const std::string& instead) {
    if (!condition) throw UserError("--tune needs {}, and this run {}; leave it out", what, instead);
  };
  require(!backend_->device_name().empty(), "a GPU", "is on " + backend_->description());
  require(mesh_.size() == 1, "a run of one rank", fmt::format("has {}", mesh_.size()));
  require(model_.cuda_graph != CudaGraph::no, "CUDA graphs", "has model.enable_cuda_graph=false");
  backend_->tune_repeated_work();
}

void Trainer::require_run_to_resume() const {
  const ExpManagerSettings& logs = settings_.exp_manager;
  if (!logs.resume_if_exists || logs.resume_ignore_no_checkpoint || !checkpoint_steps(folder_.checkpoints()).empty()) return;
  const std::string searched = folder_.searched().string();
  throw UserError("{} to resume; leave out --resume, or set exp_manager.resume_ignore_no_checkpoint=true to start anew",
                  std::filesystem::exists(searched) ? fmt::format("there is no checkpoint in {}", searched)
                                                    : fmt::format("there is no run {}, so no checkpoint", searched));
}

// A checkpoint that cannot be read is said when it is loaded.
void Trainer::require_same_mathematics() {
  if (!settings_.exp_manager.resume_if_exists) return;
  std::optional<StoredCheckpoint> newest;
  try {
    newest = find_latest(folder_.checkpoints()).checkpoint;
  } catch (const Failure&) {
    return;
  }
  if (!newest || newest->manifest.info.state.contains(kWeightsOnly)) return;
  const CheckpointInfo& info = newest->manifest.info;
  const std::vector<std::string> changed = changed_mathematics(info.settings, request_.settings_text);
  if (changed.empty()) return;
  const std::string line =
      fmt::format("{} was trained with other settings: {}", folder_.path().string(), fmt::join(changed, ", "));
  if (request_.changed_settings == ChangedSettings::accepted) return warn(line);
  throw UserError("{}; give --changed to go on from its step {} all the same, or name a run of its own with exp_manager.name",
                  line, info.step);
}

RunFolder Trainer::choose_folder() {
  const ExpManagerSettings& logs = settings_.exp_manager;
  if (!is_first()) return RunFolder::shared(control_.share("run folder", ""));
  RunFolder folder = RunFolder::choose(logs, logs.resume_if_exists ? Resume::yes : Resume::no);
  control_.share("run folder", folder.path().string());
  return folder;
}

void Trainer::claim_folder() {
  if (is_first()) folder_.claim();
  // Its name may have changed: somebody else was there first.
  const std::string path = control_.share("claimed folder", folder_.path().string());
  if (is_first()) return;
  folder_ = RunFolder::shared(path);
  if (!std::filesystem::is_directory(path))
    throw UserError("exp_manager: the run's folder {}, made by {}, is not there on {}; use one that all machines share", path,
                    control_.name_of(0), control_.places()[static_cast<size_t>(world_.rank())].host);
}

void Trainer::open_data() {
  // What the first rank indexes the others find.
  const bool is_cached = model_.data.data_impl == "mmap";
  if (is_cached && !is_first()) control_.share("data", "");
  const DatasetRequest request = training_request(settings_);
  const int64_t samples = *request.samples_needed[static_cast<size_t>(Split::train)];
  constexpr int64_t kManySamples = 5'000'000;
  if (samples > kManySamples)
    say(fmt::format("indexing {} training samples; fewer trainer.max_steps start sooner",
                    format_count(static_cast<double>(samples))));
  DatasetsBySplit datasets = open_datasets(model_.data, request, [&](const std::string& line) { warn(line); });
  documents_ = document_rules(model_.data, model_.tokenizer, model_.vocab_size);
  train_data_ = std::move(datasets[static_cast<size_t>(Split::train)]);
  validation_data_ = std::move(datasets[static_cast<size_t>(Split::validation)]);
  if (is_cached && is_first()) control_.share("data", "");

  const TrainerSettings& trainer = settings_.trainer;
  validation_batches_ = trainer.limit_val_batches;
  if (validation_data_ == nullptr || trainer.limit_val_share == 0) return;
  const int64_t batches = validation_data_->size() / model_.global_batch_size;
  validation_batches_ = static_cast<int64_t>(static_cast<double>(batches) * trainer.limit_val_share);
  if (validation_batches_ == 0)
    throw UserError(
        "trainer.limit_val_batches={}: the validation data has {} samples, less than a batch of {}; use a whole number",
        trainer.limit_val_share, validation_data_->size(), model_.global_batch_size);
}

void Trainer::announce() {
  const Dims d = dims_of(model_, model_.micro_batch_size, model_.encoder_seq_length);
  const auto table = parameter_table(model_);
  say(fmt::format("trireme {} ({})  {}", kVersion, kCommit, backend_->description()));
  say("backend " + machine_.chosen().text());
  if (const std::string& warning = machine_.chosen().warning; !warning.empty() && is_first()) warn(warning);
  say(fmt::format("model   {} parameters: {}, {} wide, {}, vocabulary {} (padded to {}), sequence {}, {}",
                  format_count(static_cast<double>(parameter_count(table))), plural(d.L, "layer"), d.C, plural(d.H, "head"), d.V,
                  d.V_padded, d.T, precision_text(settings_)));
  say(fmt::format("batch   {} a step in micro-batches of {}, {} tokens a step; {}", plural(model_.global_batch_size, "sample"),
                  model_.micro_batch_size, format_count(static_cast<double>(model_.global_batch_size * d.T)),
                  plural(settings_.trainer.max_steps, "step")));
  say("data    " + data_text());
  say(layout_lines());
  if (mesh_.size() > 1) say("overlap " + overlaps_text(settings_));
  if (const std::string text = machine_.communication_text(); !text.empty()) say("comm    " + text);
  say(memory_table(plan_, other_memory_));
  say("rates   " + rates_.description());
  for (const std::string& line : request_.notices) say(line);
  if (restored_) say(fmt::format("weights {}, unless the run has a checkpoint of its own", restored_->folder.string()));
  say(fmt::format("run     {}", folder_.path().string()));
  if (model_.profile.enabled)
    say(
        fmt::format("profile steps {} to {} are marked for a profiler; to record them:\n        nsys profile --trace={} "
                    "--capture-range=cudaProfilerApi --capture-range-end=stop --output={}/profile {}",
                    model_.profile.start_step, model_.profile.end_step, fmt::join(model_.profile.trace, ","),
                    folder_.path().string(), request_.command));
}

std::string Trainer::data_text() const {
  const auto count = [](double number) { return format_count(number); };
  const double taken = static_cast<double>(settings_.trainer.max_steps) * static_cast<double>(model_.global_batch_size);
  const auto there = static_cast<double>(train_data_->epoch_size());
  const int64_t threads = std::max<int64_t>(model_.data.num_workers, 1);
  const std::string what = model_.data.is_made_up() ? fmt::format("made up; the run takes {}", counted(taken, "sample"))
                                                    : fmt::format("{} in the data; the run takes {}, {:.3g} epochs",
                                                                  counted(there, "training sample"), count(taken), taken / there);
  return fmt::format("{}: {}; {} ahead of the step", model_.data.data_impl, what,
                     counted(static_cast<double>(threads), "thread"));
}

std::string Trainer::layout_lines() {
  const MeshShape& shape = place_.shape;
  const int64_t chunks = model_.virtual_pipeline_model_parallel_size;
  const std::string sizes = fmt::format("TP {}, PP {}{}, DP {}, CP {}", shape.tp, shape.pp,
                                        chunks > 1 ? fmt::format(", VP {}", chunks) : "", shape.dp, shape.cp);
  if (world_.size() == 1) return "layout  1 rank: " + sizes;
  const std::vector<RankPlace>& places = control_.places();
  const RankPlace& here = places[static_cast<size_t>(world_.rank())];
  std::string own = fmt::format("rank {}: {}", world_.rank(), plan_.holdings);
  const auto slice = [&](const char* what, const Communicator& group) {
    if (group.size() > 1) own += fmt::format(", {} slice {} of {}", what, group.rank() + 1, group.size());
  };
  slice("tensor", *mesh_.tp);
  slice("context", *mesh_.cp);
  slice("data", *mesh_.dp);
  own += fmt::format("; {}, process {}, cores {}, {}; {}", here.host, here.process, here.core_text(),
                     machine_.backend().description(), format_bytes(plan_.total()));
  std::vector<std::string> lines = control_.gather("layout", own);
  if (lines.empty()) return "layout  " + own;
  constexpr size_t kMostShown = 64;  // every rank's own log has its line
  const size_t left_out = lines.size() - std::min(lines.size(), kMostShown);
  lines.resize(lines.size() - left_out);
  if (left_out > 0) lines.push_back(fmt::format("and {} more", left_out));
  return fmt::format("layout  {} ranks on {} {}: {}\n        {}", world_.size(), hosts_of(places),
                     hosts_of(places) == 1 ? "machine" : "machines", sizes, fmt::join(lines, "\n        "));
}

void Trainer::start() {
  memory_.emplace(plan_, *backend_);
  engine_ = std::make_unique<Engine>(engine_settings(settings_), *backend_, mesh_, memory_->arenas, memory_->step);
  if (settings_.exp_manager.create_checkpoint_callback) {
    const CheckpointSettings& keep = settings_.exp_manager.checkpoint;
    writer_ = std::make_unique<CheckpointWriter>(folder_.checkpoints(), checkpoint_tensors(*engine_, CheckpointUse::save),
                                                 Retention{.keep_last = keep.keep_last, .keep_best = keep.save_top_k}, &control_);
  }
  engine_->initialise_weights();  // also clears what a checkpoint does not hold: the padding
  if (load_checkpoint_if_there())
    say(fmt::format("resumed from step {}, {} samples consumed", step_, consumed_samples_));
  else if (restored_)
    restore_weights();
  first_step_ = step_;
  loader_.emplace(*train_data_, sampler_layout(), consumed_samples_, micro_batches_of(model_.global_batch_size) + 2,
                  std::max<int64_t>(model_.data.num_workers, 1));
}

bool Trainer::load_checkpoint_if_there() {
  if (!settings_.exp_manager.resume_if_exists) return false;
  ScalesFound scales = ScalesFound::yes;
  const auto wanted = [&](const CheckpointManifest& manifest) {
    if (manifest.info.state.contains(kWeightsOnly))
      throw UserError("weights without optimizer state cannot be resumed; start a run with model.restore_from_path={}",
                      folder_.path().string());
    std::vector<CheckpointTensor> tensors = checkpoint_tensors(*engine_, CheckpointUse::load);
    scales = keep_scales_if_there(manifest, tensors);
    return tensors;
  };
  const NewestCheckpoint newest = load_newest(folder_.checkpoints(), wanted, &control_);
  for (const std::string& line : newest.skipped) warn(line);
  if (!newest.checkpoint) return false;
  const CheckpointInfo& info = newest.checkpoint->manifest.info;
  engine_->restore_updates(info.state.at("updates").get<int64_t>());
  if (scales == ScalesFound::no) {
    engine_->forget_scales();
    warn("FP8 scales start anew: the checkpoint was saved without FP8, or with other settings of it");
  }
  step_ = saved_step_ = info.step;
  consumed_samples_ = info.consumed_samples;
  validation_loss_ = info.validation_loss;
  return true;
}

void Trainer::restore_weights() {
  load_checkpoint(*restored_, parameter_tensors(*engine_));
  engine_->restore_updates(0);
}

}  // namespace trireme
