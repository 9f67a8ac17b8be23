#include "train/fit_advice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "base/units.h"
#include "config/validate.h"

namespace trireme {
namespace {

// One way to do something, and what a run does already at no cost.
struct Change {
  double cost = 0;
  std::vector<std::string> overrides;
  void (*apply)(ModelSettings&) = [](ModelSettings&) {};
};

constexpr double kDistributed = 1, kFsdp = 8, kHalfMicroBatch = 4, kSelective = 2, kFull = 30, kBf16Moments = 10, kOffload = 15;

std::vector<Change> sharding_of(const Settings& settings) {
  const ModelSettings& model = settings.model;
  std::vector<Change> ways{{}};
  const bool has_copies = settings.data_parallel_size() * model.context_parallel_size > 1;
  if (!has_copies || model.fsdp || model.peft.scheme != PeftScheme::none) return ways;
  if (!model.shards_optimizer())
    ways.push_back({kDistributed, {"model.optim.name=distributed_fused_adam"}, [](ModelSettings& m) {
                      m.optim.name = Optimizer::distributed_fused_adam;
                    }});
  if (model.pipeline_schedule != PipelineSchedule::zero_bubble)
    ways.push_back({kFsdp, {"model.fsdp=true"}, [](ModelSettings& m) { m.fsdp = true; }});
  return ways;
}

std::vector<Change> recompute_of(const ModelSettings& model) {
  std::vector<Change> ways{{}};
  const RecomputeGranularity now = model.activations_checkpoint_granularity;
  if (now == RecomputeGranularity::none)
    ways.push_back({kSelective, {"model.activations_checkpoint_granularity=selective"}, [](ModelSettings& m) {
                      m.activations_checkpoint_granularity = RecomputeGranularity::selective;
                    }});
  if (now != RecomputeGranularity::full)
    ways.push_back({kFull,
                    {"model.activations_checkpoint_granularity=full", "model.activations_checkpoint_method=uniform",
                     "model.activations_checkpoint_num_layers=1"},
                    [](ModelSettings& m) {
                      m.activations_checkpoint_granularity = RecomputeGranularity::full;
                      m.activations_checkpoint_method = RecomputeMethod::uniform;
                      m.activations_checkpoint_num_layers = 1;
                    }});
  return ways;
}

// With a beta2 close to 1 a second moment changes by less than bf16 can tell apart.
std::vector<Change> moments_of(const ModelSettings& model) {
  constexpr double kMostBeta2 = 0.99;
  std::vector<Change> ways{{}};
  const OptimSettings& optim = model.optim;
  if (model.peft.scheme != PeftScheme::none || optim.exp_avg_dtype != MomentType::f32) return ways;
  if (optim.exp_avg_sq_dtype == MomentType::f32 && optim.beta2 <= kMostBeta2)
    ways.push_back({kBf16Moments, {"model.optim.exp_avg_dtype=bf16", "model.optim.exp_avg_sq_dtype=bf16"}, [](ModelSettings& m) {
                      m.optim.exp_avg_dtype = m.optim.exp_avg_sq_dtype = MomentType::bf16;
                    }});
  else
    ways.push_back(
        {kBf16Moments, {"model.optim.exp_avg_dtype=bf16"}, [](ModelSettings& m) { m.optim.exp_avg_dtype = MomentType::bf16; }});
  return ways;
}

std::vector<Change> offload_of(const ModelSettings& model, const GpuKind& gpu) {
  std::vector<Change> ways{{}};
  const bool keeps_masters = model.fp8.enabled && model.fp8.params;
  const bool is_cpu = gpu.threads > 0;  // there the host's memory is the model's
  if (!is_cpu && !keeps_masters && !model.optim.optimizer_cpu_offload && model.peft.scheme == PeftScheme::none)
    ways.push_back(
        {kOffload, {"model.optim.optimizer_cpu_offload=true"}, [](ModelSettings& m) { m.optim.optimizer_cpu_offload = true; }});
  return ways;
}

struct Candidate {
  double cost = 0;
  Settings settings;
  std::vector<std::string> overrides;
  std::tuple<size_t, size_t, size_t> states;        // sharding, moments and offload: what does not depend on the micro-batch
  std::tuple<size_t, int64_t, size_t> activations;  // sharding, micro-batch and recompute: the rest

  void add(const Change& change) {
    cost += change.cost;
    change.apply(settings.model);
    overrides.insert(overrides.end(), change.overrides.begin(), change.overrides.end());
  }
};

// The cheapest first.
std::vector<Candidate> candidates_for(const Settings& settings, const GpuKind& gpu) {
  const auto shardings = sharding_of(settings), recomputes = recompute_of(settings.model), moments = moments_of(settings.model),
             offloads = offload_of(settings.model, gpu);
  std::vector<Candidate> all;
  for (size_t s = 0; s < shardings.size(); ++s)
    for (size_t r = 0; r < recomputes.size(); ++r)
      for (size_t m = 0; m < moments.size(); ++m)
        for (size_t o = 0; o < offloads.size(); ++o) {
          double micro_batch_cost = 0;
          for (int64_t size = settings.model.micro_batch_size;; size /= 2, micro_batch_cost += kHalfMicroBatch) {
            Candidate one{.settings = settings, .states = {s, m, o}, .activations = {s, size, r}};
            if (size != settings.model.micro_batch_size) {
              one.overrides.push_back(fmt::format("model.micro_batch_size={}", size));
              one.settings.model.micro_batch_size = size;
              one.cost = micro_batch_cost;
            }
            for (const Change& change : {shardings[s], recomputes[r], moments[m], offloads[o]}) one.add(change);
            if (!one.overrides.empty()) all.push_back(std::move(one));
            if (size % 2 != 0) break;
          }
        }
  std::ranges::stable_sort(all, {}, &Candidate::cost);
  return all;
}

bool is_valid(const Settings& settings) {
  try {
    validate(settings);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

bool is_state(std::string_view label) {
  static const std::set<std::string_view> kStates = {"parameters", "gradients", "masters", "states", "host states"};
  return kStates.contains(label);
}

}  // namespace

// The two parts of a plan hardly depend on one another. So combinations of parts that are known and too large are not recorded.
std::optional<FitAdvice> advise_to_fit(const Settings& settings, const GpuKind& gpu) {
  std::map<decltype(Candidate::states), int64_t> states;
  std::map<decltype(Candidate::activations), int64_t> activations;
  for (Candidate& one : candidates_for(settings, gpu)) {
    const auto state = states.find(one.states);
    const auto activation = activations.find(one.activations);
    const int64_t known =
        (state == states.end() ? 0 : state->second) + (activation == activations.end() ? 0 : activation->second);
    if (known > gpu.memory || !is_valid(one.settings)) continue;
    TargetPlan plan = plan_for_target(one.settings, gpu);
    if (plan.left() >= 0) return FitAdvice{std::move(one.overrides), std::move(plan)};
    int64_t state_bytes = 0;
    for (const auto& [label, bytes] : plan.rows)
      if (is_state(label)) state_bytes += bytes;
    states[one.states] = state_bytes;
    activations[one.activations] = plan.total - state_bytes;
  }
  return std::nullopt;
}

std::string text_of(const std::optional<FitAdvice>& advice) {
  if (!advice) return "to fit  no change of micro-batch, recompute or optimizer is enough: use more GPUs";
  const int64_t host = advice->plan.host_states;
  return fmt::format("to fit  add {}  ({} left{})", fmt::join(advice->overrides, " "), format_bytes(advice->plan.left()),
                     host > 0 ? fmt::format(", {} of host memory for each rank", format_bytes(host)) : "");
}

nlohmann::ordered_json json_of(const std::optional<FitAdvice>& advice) {
  if (!advice) return nullptr;
  return {{"overrides", advice->overrides},
          {"total", advice->plan.total},
          {"left", advice->plan.left()},
          {"host_states", advice->plan.host_states}};
}

}  // namespace trireme
