#include "plan/layout_search.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "base/error.h"
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

// Layouts that are worth timing: TP within an NVLink domain, CP only for long sequences, VP only with more than one stage.
class Candidates {
 public:
  Candidates(const PlanRequest& request, const SearchOptions& options) : request_(request), options_(options) {}

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
          for (const PipelineSchedule schedule : schedules_for(pp, vp)) {
            model.pipeline_schedule = schedule;
            add_variants(settings);
          }
        }
  }

  // With chunks, 1F1B is the interleaved schedule, the only one that has them. GPipe waits as long as 1F1B and keeps more.
  static std::vector<PipelineSchedule> schedules_for(int64_t stages, int64_t chunks) {
    if (stages == 1 || chunks > 1) return {PipelineSchedule::one_forward_one_backward};
    return {PipelineSchedule::one_forward_one_backward, PipelineSchedule::zero_bubble};
  }

  void add_variants(const Settings& settings) {
    std::vector<Settings> variants{settings};
    if (options_.varies_fp8 && request_.platform.gpu.fp8_tflops > 0) {
      variants.push_back(settings);
      variants.back().model.fp8.enabled = !settings.model.fp8.enabled;
    }
    if (options_.varies_shards)
      for (size_t i = 0, size = variants.size(); i < size; ++i) {
        variants.push_back(variants[i]);
        OptimSettings& optim = variants.back().model.optim;
        optim.name = optim.is_distributed() ? Optimizer::fused_adam : Optimizer::distributed_fused_adam;
      }
    for (const Settings& variant : variants) add_if_valid(variant);
  }

  void add_if_valid(const Settings& settings) {
    const ModelSettings& model = settings.model;
    if (model.fp8.enabled && model.pipeline_schedule == PipelineSchedule::zero_bubble) return;  // does not run in FP8
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
  const SearchOptions& options_;
  std::vector<Settings> found_;
};

// Layouts that differ only in how layers are divided have the same recorded parts.
class RecordingCache {
 public:
  explicit RecordingCache(RecordedDevice device) : device_(device) {}

  const StepRecording& of(const Settings& settings) {
    const ModelSettings& model = settings.model;
    auto& recording = known_[{model.tensor_model_parallel_size, model.context_parallel_size, settings.data_parallel_size(),
                              model.micro_batch_size, static_cast<int>(model.activations_checkpoint_granularity),
                              model.fp8.enabled, model.optim.is_distributed()}];
    if (recording == nullptr) recording = std::make_unique<StepRecording>(record_step(settings, device_));
    return *recording;
  }

 private:
  RecordedDevice device_;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int, bool, bool>, std::unique_ptr<StepRecording>> known_;
};

// Layouts that did not fit. Neither does one that differs only by a larger micro-batch or by less recompute.
class TooLarge {
 public:
  void add(const Settings& settings) { failed_.push_back(settings.model); }

  bool has_smaller(const Settings& settings) const {
    const ModelSettings& model = settings.model;
    return std::ranges::any_of(failed_, [&](const ModelSettings& failed) {
      return key_of(failed) == key_of(model) && failed.micro_batch_size <= model.micro_batch_size &&
             failed.activations_checkpoint_granularity >= model.activations_checkpoint_granularity;
    });
  }

 private:
  static std::tuple<int64_t, int64_t, int64_t, int64_t, PipelineSchedule, bool, bool> key_of(const ModelSettings& model) {
    return {model.tensor_model_parallel_size,
            model.pipeline_model_parallel_size,
            model.virtual_pipeline_model_parallel_size,
            model.context_parallel_size,
            model.pipeline_schedule,
            model.fp8.enabled,
            model.optim.is_distributed()};
  }

  std::vector<ModelSettings> failed_;
};

struct TimedLayout {
  Settings settings;
  StepTime step;
};

}  // namespace

Settings with_short_step(const Settings& settings) {
  const int64_t stages = settings.model.pipeline_model_parallel_size;
  const int64_t micro_batches = run_size(settings).micro_batches;
  const int64_t enough = 2 * stages + micro_batches % stages;
  Settings shorter = settings;
  if (enough < micro_batches) shorter.model.global_batch_size = settings.model.global_batch_size / micro_batches * enough;
  return shorter;
}

LayoutSearch search_layouts(const PlanRequest& request, const SearchOptions& options) {
  require_timed(request);
  RecordingCache recordings(device_of(request.platform));
  LayoutSearch search;
  std::vector<TimedLayout> timed;
  for (const Settings& settings : Candidates(request, options).all()) {
    const PlanCase plan_case(settings, layers_of(settings.model), recordings.of(settings));
    timed.push_back({settings, step_time(plan_case, request.platform, request.software)});
  }
  search.tried = std::ssize(timed);
  std::ranges::stable_sort(timed, {}, [](const TimedLayout& layout) { return layout.step.total; });
  const GpuKind gpu = gpu_kind_of(request.platform);
  TooLarge too_large;
  for (const TimedLayout& layout : timed) {
    if (search.best.size() == options.count) break;
    search.too_large += 1;
    if (too_large.has_smaller(layout.settings)) continue;
    TargetPlan memory = plan_for_target(with_short_step(layout.settings), gpu);
    if (memory.left() < 0) {
      too_large.add(layout.settings);
      continue;
    }
    search.too_large -= 1;
    PlanRequest found = request;
    found.settings = layout.settings;
    search.best.push_back(plan_of(found, std::move(memory), layout.step));
  }
  return search;
}

double least_days(const PlanRequest& request, const SearchOptions& options) {
  PlanRequest fastest = request;
  ModelSettings& model = fastest.settings.model;
  model.tensor_model_parallel_size = model.pipeline_model_parallel_size = model.context_parallel_size = 1;
  model.virtual_pipeline_model_parallel_size = 1;
  model.fp8.enabled = model.fp8.enabled || (options.varies_fp8 && request.platform.gpu.fp8_tflops > 0);
  RunPlan plan = plan_of(fastest, {}, {.total = 1});
  plan.step.total = plan.rates.mfu(plan.tflops_per_gpu());
  return plan.days();
}

}  // namespace trireme
