#include "plan/layout_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "train/run_size.h"

namespace trireme {
namespace {

const char* recompute_name(RecomputeGranularity granularity) {
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

const char* format_name(const ModelSettings& model) { return model.fp8.enabled ? "fp8" : "bf16"; }

const char* name_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::fused_adam:
      return "fused_adam";
    case Optimizer::distributed_fused_adam:
      return "distributed_fused_adam";
    case Optimizer::mcore_distributed_optim:
      return "mcore_distributed_optim";
    case Optimizer::adamw:
      break;
  }
  return "adamw";
}

const char* name_of(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return "gpipe";
    case PipelineSchedule::zero_bubble:
      return "zb-h1";
    case PipelineSchedule::one_forward_one_backward:
      break;
  }
  return "1f1b";
}

std::vector<std::pair<std::string, std::string>> layout_keys(const Settings& settings) {
  const ModelSettings& model = settings.model;
  const auto text = [](auto value) { return fmt::format("{}", value); };
  const auto above = [](int64_t value, int64_t least) { return value > least ? fmt::format("{}", value) : "null"; };
  const bool recomputes = model.activations_checkpoint_granularity != RecomputeGranularity::none;
  const bool recomputes_layers = model.activations_checkpoint_granularity == RecomputeGranularity::full;
  return {
      {"trainer.num_nodes", text(settings.trainer.num_nodes)},
      {"trainer.devices", text(settings.trainer.devices)},
      {"model.global_batch_size", text(model.global_batch_size)},
      {"model.micro_batch_size", text(model.micro_batch_size)},
      {"model.tensor_model_parallel_size", text(model.tensor_model_parallel_size)},
      {"model.sequence_parallel", text(model.sequence_parallel)},
      {"model.pipeline_model_parallel_size", text(model.pipeline_model_parallel_size)},
      {"model.virtual_pipeline_model_parallel_size", above(model.virtual_pipeline_model_parallel_size, 1)},
      {"model.pipeline_schedule", name_of(model.pipeline_schedule)},
      {"model.num_layers_in_first_pipeline_stage", above(model.num_layers_in_first_pipeline_stage, 0)},
      {"model.num_layers_in_last_pipeline_stage", above(model.num_layers_in_last_pipeline_stage, 0)},
      {"model.overlap_p2p_comm", text(model.overlap_p2p_comm)},
      {"model.batch_p2p_comm", text(model.batch_p2p_comm)},
      {"model.context_parallel_size", text(model.context_parallel_size)},
      {"model.activations_checkpoint_granularity",
       recomputes ? recompute_name(model.activations_checkpoint_granularity) : "null"},
      {"model.activations_checkpoint_method", !recomputes_layers                                                ? "null"
                                              : model.activations_checkpoint_method == RecomputeMethod::uniform ? "uniform"
                                                                                                                : "block"},
      {"model.activations_checkpoint_num_layers", recomputes_layers ? text(model.activations_checkpoint_num_layers) : "null"},
      {"model.fp8", text(model.fp8.enabled)},
      {"model.optim.name", name_of(model.optim.name)},
  };
}

}  // namespace

std::string layout_head(const PlanRequest& request) {
  return fmt::format("{:>6} {:>4} {:>4} {:>4} {:<5} {:>4} {:>6} {:>4} {:<9} {:<6} {:<7} {:>10} {:>9} {:>6} {:>10}{}", "GPUs",
                     "TP", "PP", "VP", "sched", "CP", "DP", "mbs", "recompute", "format", "sharded", "step", "tokens/s", "MFU",
                     "memory", request.tokens > 0 ? "     days" : "");
}

std::string layout_row(const RunPlan& plan) {
  const Settings& settings = plan.request.settings;
  const ModelSettings& model = settings.model;
  std::string row = fmt::format(
      "{:>6} {:>4} {:>4} {:>4} {:<5} {:>4} {:>6} {:>4} {:<9} {:<6} {:<7} {:>10} {:>9} {:>5.1f}% {:>10}", settings.ranks(),
      model.tensor_model_parallel_size, model.pipeline_model_parallel_size, model.virtual_pipeline_model_parallel_size,
      model.pipeline_model_parallel_size > 1 ? name_of(model.pipeline_schedule) : "-", model.context_parallel_size,
      settings.data_parallel_size(), model.micro_batch_size, recompute_name(model.activations_checkpoint_granularity),
      format_name(model), model.optim.is_distributed() ? "yes" : "no", format_seconds(plan.step.total),
      format_count(plan.tokens_per_second()), 100 * plan.rates.mfu(plan.tflops_per_gpu()), format_bytes(plan.memory.total));
  if (plan.request.tokens > 0) row += fmt::format(" {:>8.1f}", plan.days());
  return row;
}

nlohmann::ordered_json layout_json(const RunPlan& plan) {
  const Settings& settings = plan.request.settings;
  nlohmann::ordered_json row = {{"gpus", settings.ranks()},
                                {"layout", layout_text(settings)},
                                {"schedule", name_of(settings.model.pipeline_schedule)},
                                {"micro_batch_size", settings.model.micro_batch_size},
                                {"global_batch_size", settings.model.global_batch_size},
                                {"recompute", recompute_name(settings.model.activations_checkpoint_granularity)},
                                {"format", format_name(settings.model)},
                                {"sharded", settings.model.optim.is_distributed()},
                                {"step_s", plan.step.total},
                                {"tokens_per_s", plan.tokens_per_second()},
                                {"mfu", plan.rates.mfu(plan.tflops_per_gpu())},
                                {"memory", plan.memory.total}};
  if (plan.request.tokens > 0) row["days"] = plan.days();
  return row;
}

std::vector<std::string> overrides_of(const Settings& settings, const Settings& from) {
  std::vector<std::string> overrides;
  const auto before = layout_keys(from);
  for (size_t i = 0; const auto& [key, value] : layout_keys(settings))
    if (value != before[i++].second) overrides.push_back(fmt::format("{}={}", key, value));
  return overrides;
}

}  // namespace trireme
