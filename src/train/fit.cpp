#include "train/fit.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/process.h"
#include "base/units.h"
#include "comm/control.h"
#include "model/dims.h"
#include "train/host_states.h"
#include "train/run_size.h"

namespace trireme {
namespace {

constexpr const char* kState = "weights, gradients and optimizer state";
constexpr const char* kSmaller = "trireme recipes lists smaller models";
constexpr const char* kNoCheckpoints = "exp_manager.create_checkpoint_callback=false";

bool is_short(int64_t needed, const Resources& there) { return there.memory > 0 && needed > there.memory; }

const char* memory_name(const Resources& there) { return there.host_memory ? "GPU memory" : "memory"; }

// What is in the host's memory: without a GPU everything is.
bool is_short_on_host(const StateBytes& state, int64_t copy, const Resources& there) {
  if (there.host_memory) return *there.host_memory > 0 && state.offloaded + copy > *there.host_memory;
  return is_short(state.training + state.offloaded + copy, there);
}

// Checkpoints are saved from a copy in the host's memory.
bool is_short_for_copy(const StateBytes& state, const Resources& there) {
  return is_short_on_host(state, state.checkpoint_copy, there);
}

// The overrides that turn a recipe for many ranks into one for a single rank.
std::string for_one_rank(const Settings& settings) {
  const ModelSettings& model = settings.model;
  std::string text;
  const auto set = [&](const char* key, int64_t size, const char* value) {
    if (size != 1) text += fmt::format(" {}={}", key, value);
  };
  set("trainer.num_nodes", settings.trainer.num_nodes, "1");
  set("trainer.devices", settings.trainer.devices, "1");
  set("model.tensor_model_parallel_size", model.tensor_model_parallel_size, "1");
  set("model.pipeline_model_parallel_size", model.pipeline_model_parallel_size, "1");
  set("model.virtual_pipeline_model_parallel_size", model.virtual_pipeline_model_parallel_size, "null");
  set("model.context_parallel_size", model.context_parallel_size, "1");
  return text;
}

void require_ranks(const Settings& settings, const Resources& there, const StateBytes& state) {
  if (settings.ranks() == there.ranks) return;
  const std::string needs =
      fmt::format("this recipe is for {} ({} x {}: {})", plural(settings.ranks(), "rank"),
                  plural(settings.trainer.num_nodes, "node"), settings.trainer.devices, layout_text(settings));
  if (there.ranks != 1)
    throw DoesNotFit("{}; {} ranks were started: start it with mpirun -n {}, or add trainer.num_nodes=1 trainer.devices={}",
                     needs, there.ranks, settings.ranks(), there.ranks);
  if (is_short(state.training, there))
    throw DoesNotFit("{} and keeps {} of {}; 1 rank was started, with {} of memory free; {}", needs, format_bytes(state.training),
                     kState, format_bytes(there.memory), kSmaller);
  const bool copy_fits = !is_short_for_copy(state, there);
  throw DoesNotFit("{}; 1 rank was started: add{}{}{}", needs, for_one_rank(settings), copy_fits ? "" : " ",
                   copy_fits ? "" : kNoCheckpoints);
}

}  // namespace

Resources resources_of(const World& world) {
  const int64_t sharing = ranks_on_host(world.control().places(), world.rank());
  return {.ranks = world.size(), .memory = available_memory_bytes() / sharing, .host_memory = {}};
}

Resources resources_of(const Backend& backend, const Resources& host, int ranks_per_device) {
  const std::optional<DeviceMemory> device = backend.device_memory();
  if (!device) return host;
  return {.ranks = host.ranks, .memory = (device->total - device->used) / ranks_per_device, .host_memory = host.memory};
}

StateBytes state_bytes(const Settings& settings, int64_t parameters) {
  const OptimSettings& optim = settings.model.optim;
  const int64_t gradient = size_of(DType::f32), master = size_of(DType::f32), moments = moment_bytes(optim);
  const bool has_masters = settings.trainer.precision != Precision::f32;  // else the weights are their own
  const int64_t weights = has_masters ? size_of(activation_dtype(settings.trainer.precision)) : master;
  const int64_t states = (has_masters ? master : 0) + moments;
  return {.training = parameters * (weights + gradient + (optim.optimizer_cpu_offload ? 0 : states)),
          .offloaded = optim.optimizer_cpu_offload ? parameters * states : 0,
          .checkpoint_copy = settings.exp_manager.create_checkpoint_callback ? parameters * (master + moments) : 0};
}

void require_fit(const Settings& settings, const Resources& there) {
  const int64_t parameters = run_size(settings).parameters;
  const StateBytes state = state_bytes(settings, parameters);
  require_ranks(settings, there, state);
  if (there.ranks != 1) return;
  if (is_short(state.training, there))
    throw DoesNotFit("{} of {} parameters take {}, and {} of {} are free here; {}, or use fewer model.num_layers", kState,
                     format_count(static_cast<double>(parameters)), format_bytes(state.training), format_bytes(there.memory),
                     memory_name(there), kSmaller);
  if (is_short_on_host(state, 0, there))
    throw DoesNotFit("{} take {} in host memory and {} beside it, and {} of memory are free here; {}", kState,
                     format_bytes(state.offloaded), format_bytes(state.training),
                     format_bytes(there.host_memory.value_or(there.memory)), kSmaller);
  if (is_short_for_copy(state, there))
    throw DoesNotFit("{} take {} and the copy that checkpoints are saved from {}, and {} of memory are free here; use {}", kState,
                     format_bytes(state.training + state.offloaded), format_bytes(state.checkpoint_copy),
                     format_bytes(there.host_memory.value_or(there.memory)), kNoCheckpoints);
}

void require_memory(const std::vector<std::pair<std::string, int64_t>>& rows, const Resources& there) {
  int64_t needed = 0;
  std::vector<std::string> parts;
  for (const auto& [label, bytes] : rows) {
    needed += bytes;
    if (bytes > 0) parts.push_back(fmt::format("{} {}", label, format_bytes(bytes)));
  }
  if (is_short(needed, there))
    throw DoesNotFit(
        "this run takes {} ({}), and {} of {} are free here; use a smaller model.micro_batch_size, or "
        "model.activations_checkpoint_granularity=full",
        format_bytes(needed), fmt::join(parts, ", "), format_bytes(there.memory), memory_name(there));
}

void require_device(const Settings& settings, const Backend& backend) {
  const ModelSettings& model = settings.model;
  const bool is_gpu = !backend.device_name().empty();
  if (settings.trainer.precision == Precision::f16 && !backend.has_f16())
    throw DoesNotFit("trainer.precision=16: fp16 is for CPUs, and this run is on {}; use bf16, or trainer.backend=cpu",
                     backend.description());
  if (model.fp8.enabled && !backend.has_fp8())
    throw DoesNotFit("model.fp8=true needs a GPU with FP8, Hopper or later, and this run is on {}; use false",
                     backend.description());
  for (const auto& [asked, key] : {std::pair{model.cuda_graph == CudaGraph::yes, "model.enable_cuda_graph=true"},
                                   std::pair{model.profile.enabled, "model.nsys_profile.enabled=true"}})
    if (asked && !is_gpu) throw DoesNotFit("{} needs a GPU, and this run is on {}; use false", key, backend.description());
}

}  // namespace trireme
