#include "train/target_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "backend/cost/cost_gpu.h"
#include "base/error.h"
#include "base/units.h"
#include "train/memory_plan.h"
#include "train/rank_machine.h"
#include "train/run_size.h"

namespace trireme {
namespace {

constexpr int64_t mebibytes(int64_t count) { return count << 20; }

// Memory as nvidia-smi reports it. The usual size of a model comes first.
constexpr std::array kGpus{
    GpuKind{"h100-80", mebibytes(81559)},   GpuKind{"h100-94", mebibytes(95830)},    GpuKind{"h200-141", mebibytes(143771)},
    GpuKind{"b200-180", mebibytes(183359)}, GpuKind{"gb200-186", mebibytes(189471)}, GpuKind{"gh200-96", mebibytes(97871)},
    GpuKind{"a100-80", mebibytes(81920)},   GpuKind{"a100-40", mebibytes(40960)},    GpuKind{"l40s-48", mebibytes(46068)},
    GpuKind{"l4-24", mebibytes(23034)},     GpuKind{"a10g-24", mebibytes(23028)},    GpuKind{"v100-32", mebibytes(32768)},
    GpuKind{"v100-16", mebibytes(16384)},   GpuKind{"rtx4090-24", mebibytes(24564)}, GpuKind{"t4-16", mebibytes(15360)},
};

// Measured on an H200: the driver's context and the libraries, before a run allocates anything.
constexpr int64_t kDriver = mebibytes(550);

// Measured on CPUs: the program, its libraries, data that was read ahead, stacks and logs.
constexpr int64_t kProgram = mebibytes(60);

// Machines of clouds by whose names recipes are called.
struct Machine {
  std::string_view name, gpu;
};
constexpr std::array kMachines{Machine{"a3mega", "h100"}, Machine{"a3ultra", "h200"}, Machine{"a3u", "h200"},
                               Machine{"a4x", "gb200"}, Machine{"a4", "b200"}};

// Where a name begins, and is not a part of another: h200x1 has h200, and h1000 has no h100.
bool has_word(std::string_view text, std::string_view word) {
  const auto character = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : ' '; };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if ((at == 0 || std::isalnum(character(at - 1)) == 0) && std::isdigit(character(at + word.size())) == 0) return true;
  return false;
}

std::string_view model_of(std::string_view name) { return name.substr(0, name.find('-')); }

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

MeshPlace place_of_stage(const Settings& settings, int64_t stage) {
  const ModelSettings& model = settings.model;
  const MeshShape shape{.tp = narrow<int>(model.tensor_model_parallel_size),
                        .cp = narrow<int>(model.context_parallel_size),
                        .dp = narrow<int>(settings.data_parallel_size()),
                        .pp = narrow<int>(model.pipeline_model_parallel_size)};
  return {.shape = shape, .rank = narrow<int>(stage) * shape.tp * shape.cp * shape.dp};
}

// Later stages keep fewer micro-batches, and those in the middle hold alike, so the largest is the first, the second or the last.
std::set<int64_t> stages_to_look_at(int64_t stages) { return {0, std::min<int64_t>(1, stages - 1), stages - 1}; }

}  // namespace

const GpuKind& find_gpu(std::string_view name) {
  const std::string wanted = in_lower_case(name);
  for (const GpuKind& gpu : kGpus)
    if (gpu.name == wanted || model_of(gpu.name) == wanted) return gpu;
  std::vector<std::string_view> names;
  for (const GpuKind& gpu : kGpus) names.push_back(gpu.name);
  throw UserError("--gpu {}: not known; use {}", name, fmt::join(names, ", "));
}

const GpuKind& gpu_of_recipe(std::string_view recipe) {
  const std::string name = in_lower_case(recipe);
  for (const GpuKind& gpu : kGpus)
    if (has_word(name, model_of(gpu.name))) return gpu;
  for (const Machine& machine : kMachines)
    if (has_word(name, machine.name)) return find_gpu(machine.gpu);
  return kGpus.front();
}

TargetPlan plan_for_target(const Settings& settings, const GpuKind& gpu) {
  const EngineSettings engine{
      .model = settings.model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
  const CostGpu cost_gpu;
  const bool is_cpu = gpu.threads > 0;
  const std::unique_ptr<Backend> cpu =
      is_cpu ? make_backend({.backend = BackendKind::cpu, .threads = gpu.threads}) : nullptr;  // knows what its ops need
  const Backend& target = is_cpu ? *cpu : static_cast<const Backend&>(cost_gpu);
  TargetPlan largest;
  for (const int64_t stage : stages_to_look_at(settings.model.pipeline_model_parallel_size)) {
    const MeshPlace place = place_of_stage(settings, stage);
    const MemoryPlan plan = plan_memory(engine, target, run_size(settings).micro_batches, place);
    if (plan.total() <= largest.total) continue;
    largest = {.rank = place.rank,
               .holdings = plan.holdings,
               .rows = plan.rows(),
               .total = plan.total(),
               .host_states = plan.arenas.host_states.peak(),
               .gpu = gpu,
               .step = profile_memory(plan)};
  }
  if (is_cpu && largest.host_states > 0) {
    largest.rows.emplace_back("host states", largest.host_states);
    largest.total += largest.host_states;
  }
  largest.rows.emplace_back(is_cpu ? "program and libraries" : "driver and libraries", is_cpu ? kProgram : kDriver);
  largest.total += largest.rows.back().second;
  return largest;
}

std::string text_of(const TargetPlan& run, const Settings& settings) {
  std::vector<std::string> parts;
  for (const auto& [label, bytes] : run.rows)
    if (bytes > 0) parts.push_back(fmt::format("{} {}", label, format_bytes(bytes)));
  const std::string who = settings.ranks() == 1
                              ? std::string{"1 rank"}
                              : fmt::format("rank {} of {} takes most ({})", run.rank, settings.ranks(), run.holdings);
  const std::string verdict = run.left() >= 0 ? fmt::format("fits, {} left", format_bytes(run.left()))
                                              : fmt::format("does not fit, {} too much", format_bytes(-run.left()));
  std::string text = fmt::format("memory  {}: {}  = {}\n", who, fmt::join(parts, "  "), format_bytes(run.total));
  if (run.host_states > 0 && run.gpu.threads == 0)
    text += fmt::format("host    {} of optimizer states for each rank\n", format_bytes(run.host_states));
  if (run.step) text += text_of(*run.step) + "\n";
  return text + fmt::format("gpu     {} has {}: {}", run.gpu.name, format_bytes(run.gpu.memory), verdict);
}

nlohmann::ordered_json json_of(const TargetPlan& run) {
  nlohmann::ordered_json kinds;
  for (const auto& [label, bytes] : run.rows) kinds[label] = bytes;
  return {{"rank", run.rank},
          {"holds", run.holdings},
          {"bytes", kinds},
          {"total", run.total},
          {"host_states", run.host_states},
          {"gpu", run.gpu.name},
          {"gpu_memory", run.gpu.memory},
          {"fits", run.left() >= 0},
          {"left", run.left()},
          {"step", run.step ? json_of(*run.step) : nlohmann::ordered_json(nullptr)}};
}

}  // namespace trireme
