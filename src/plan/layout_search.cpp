#include "plan/layout_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "config/validate.h"
#include "train/fit.h"
#include "train/run_size.h"

namespace trireme {
namespace {

constexpr int64_t kMostChunks = 12, kMostMicroBatch = 8;

std::vector<int64_t> divisors_up_to(int64_t number, int64_t most) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i <= std::min(number, most); ++i)
    if (number % i == 0) divisors.push_back(i);
  return divisors;
}

const char* name_of(RecomputeGranularity granularity) {
  switch (granularity) {
    case RecomputeGranularity::full:
      return "full";
    case RecomputeGranularity::selective:
      return "selective";
    case RecomputeGranularity::none:
      break;
  }
  return "none";
}

// Layouts that are worth timing: TP within an NVLink domain, CP only for long sequences, VP only with more than one stage.
class Candidates {
 public:
  explicit Candidates(const PlanRequest& request) : request_(request) {}

  std::vector<Settings> all() && {
    const ModelSettings& model = request_.settings.model;
    const int64_t ranks = request_.settings.ranks();
    const auto domain = static_cast<int64_t>(request_.platform.nvlink_domain);
    constexpr int64_t kLongSequence = 8192;
    for (const int64_t tp : divisors_up_to(model.num_attention_heads, std::min<int64_t>(domain, 16)))
      for (const int64_t pp : divisors_up_to(model.num_layers, ranks / tp))
        for (const int64_t cp : {1, 2, 4, 8}) {
          if (ranks % (tp * pp * cp) != 0 || (cp > 1 && model.encoder_seq_length < kLongSequence)) continue;
          add_layout(tp, pp, cp);
        }
    return std::move(found_);
  }

 private:
  void add_layout(int64_t tp, int64_t pp, int64_t cp) {
    Settings settings = request_.settings;
    ModelSettings& model = settings.model;
    model.tensor_model_parallel_size = tp, model.pipeline_model_parallel_size = pp, model.context_parallel_size = cp;
    model.sequence_parallel = tp > 1;
    model.pipeline_schedule = PipelineSchedule::one_forward_one_backward;
    model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = 0;
    for (const int64_t vp : pp > 1 ? divisors_up_to(model.num_layers / pp, kMostChunks) : std::vector<int64_t>{1})
      for (int64_t micro_batch = 1; micro_batch <= kMostMicroBatch; micro_batch *= 2)
        for (const RecomputeGranularity recompute :
             {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full}) {
          model.virtual_pipeline_model_parallel_size = vp;
          model.overlap_p2p_comm = vp > 1;
          model.batch_p2p_comm = vp == 1;
          model.micro_batch_size = micro_batch;
          model.activations_checkpoint_granularity = recompute;
          model.activations_checkpoint_method = RecomputeMethod::uniform;
          model.activations_checkpoint_num_layers = 1;
          add_if_valid(settings);
        }
  }

  void add_if_valid(const Settings& settings) {
    try {
      validate(settings);
    } catch (const UserError&) {
      return;
    }
    const auto sharded = static_cast<double>(settings.model_ranks());
    const auto parameters = static_cast<double>(run_size(settings).parameters) / sharded;
    constexpr double kLeastBytes = 6;  // weights in bf16 and gradients in f32
    if (parameters * kLeastBytes < request_.platform.gpu.memory_gib * static_cast<double>(int64_t{1} << 30))
      found_.push_back(settings);
  }

  const PlanRequest& request_;
  std::vector<Settings> found_;
};

// Layouts that differ only in how layers are divided have the same recorded parts.
class RecordingCache {
 public:
  const StepRecording& of(const Settings& settings) {
    const ModelSettings& model = settings.model;
    auto& recording = known_[{model.tensor_model_parallel_size, model.context_parallel_size, settings.data_parallel_size(),
                              model.micro_batch_size, static_cast<int>(model.activations_checkpoint_granularity)}];
    if (recording == nullptr) recording = std::make_unique<StepRecording>(record_step(settings));
    return *recording;
  }

 private:
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int>, std::unique_ptr<StepRecording>> known_;
};

std::string layout_row(const Settings& settings) {
  const ModelSettings& model = settings.model;
  return fmt::format("{:>4} {:>4} {:>4} {:>4} {:>6} {:>4} {:<10}", model.tensor_model_parallel_size,
                     model.pipeline_model_parallel_size, model.virtual_pipeline_model_parallel_size, model.context_parallel_size,
                     settings.data_parallel_size(), model.micro_batch_size, name_of(model.activations_checkpoint_granularity));
}

}  // namespace

LayoutSearch search_layouts(const PlanRequest& request, size_t count) {
  RecordingCache recordings;
  LayoutSearch search;
  std::vector<FoundLayout> timed;
  for (const Settings& settings : Candidates(request).all()) {
    const PlanCase plan_case(settings, layers_of(settings.model), recordings.of(settings));
    timed.push_back({settings, step_time(plan_case, request.platform, request.software), {}});
  }
  search.tried = std::ssize(timed);
  std::ranges::stable_sort(timed, {}, [](const FoundLayout& layout) { return layout.step.total; });
  const GpuModel& gpu = request.platform.gpu;
  const GpuKind kind{.name = gpu.name, .memory = static_cast<int64_t>(gpu.memory_gib * static_cast<double>(int64_t{1} << 30))};
  for (FoundLayout& layout : timed) {
    if (search.best.size() == count) break;
    layout.memory = plan_for_target(layout.settings, kind);
    if (layout.memory.left() >= 0)
      search.best.push_back(std::move(layout));
    else
      search.too_large += 1;
  }
  return search;
}

std::vector<std::string> overrides_of(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const bool recomputes = model.activations_checkpoint_granularity != RecomputeGranularity::none;
  std::vector<std::string> overrides{
      fmt::format("model.tensor_model_parallel_size={}", model.tensor_model_parallel_size),
      fmt::format("model.sequence_parallel={}", model.sequence_parallel),
      fmt::format("model.pipeline_model_parallel_size={}", model.pipeline_model_parallel_size),
      model.virtual_pipeline_model_parallel_size == 1
          ? "model.virtual_pipeline_model_parallel_size=null"
          : fmt::format("model.virtual_pipeline_model_parallel_size={}", model.virtual_pipeline_model_parallel_size),
      fmt::format("model.overlap_p2p_comm={}", model.overlap_p2p_comm),
      fmt::format("model.batch_p2p_comm={}", model.batch_p2p_comm),
      fmt::format("model.context_parallel_size={}", model.context_parallel_size),
      fmt::format("model.micro_batch_size={}", model.micro_batch_size),
      fmt::format("model.activations_checkpoint_granularity={}",
                  recomputes ? name_of(model.activations_checkpoint_granularity) : "null")};
  if (model.activations_checkpoint_granularity == RecomputeGranularity::full)
    overrides.insert(overrides.end(),
                     {"model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=1"});
  return overrides;
}

std::string text_of(const LayoutSearch& search, const PlanRequest& request) {
  std::string text = fmt::format("{} timed on {} of {}; {} faster ones do not fit\n", plural(search.tried, "layout"),
                                 plural(request.settings.ranks(), "GPU"), request.platform.name, search.too_large);
  text += fmt::format("{:>4} {:>4} {:>4} {:>4} {:>6} {:>4} {:<10} {:>10} {:>12} {:>10}\n", "TP", "PP", "VP", "CP", "DP", "mbs",
                      "recompute", "step", "tokens/s", "memory");
  for (const FoundLayout& layout : search.best) {
    const ModelSettings& model = layout.settings.model;
    const double tokens = static_cast<double>(model.global_batch_size * model.encoder_seq_length) / layout.step.total;
    text += fmt::format("{} {:>10} {:>12} {:>10}\n", layout_row(layout.settings), format_seconds(layout.step.total),
                        format_count(tokens), format_bytes(layout.memory.total));
  }
  return text;
}

nlohmann::ordered_json json_of(const LayoutSearch& search) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const FoundLayout& layout : search.best)
    rows.push_back({{"layout", layout_text(layout.settings)},
                    {"overrides", overrides_of(layout.settings)},
                    {"step_s", layout.step.total},
                    {"memory", layout.memory.total}});
  return {{"tried", search.tried}, {"too_large", search.too_large}, {"best", rows}};
}

}  // namespace trireme
