#include "plan/model_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/run_size.h"

namespace trireme {
namespace {

ModelSize shipped(const std::string& name) { return {name, "gpt3/" + name, {}}; }

struct Shape {
  int64_t layers, width, heads, batch;
  double learning_rate;
};

ModelSize shaped(const std::string& name, const std::string& like, const Shape& shape) {
  return {name,
          "gpt3/" + like,
          {fmt::format("model.num_layers={}", shape.layers), fmt::format("model.hidden_size={}", shape.width),
           fmt::format("++model.ffn_hidden_size={}", 4 * shape.width), fmt::format("model.num_attention_heads={}", shape.heads),
           fmt::format("model.global_batch_size={}", shape.batch), fmt::format("model.optim.lr={}", shape.learning_rate),
           fmt::format("model.optim.sched.min_lr={}", shape.learning_rate / 10)}};
}

}  // namespace

Settings on_one_rank(Settings settings) {
  ModelSettings& model = settings.model;
  model.tensor_model_parallel_size = model.pipeline_model_parallel_size = model.context_parallel_size = 1;
  model.virtual_pipeline_model_parallel_size = 1;
  model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = 0;
  model.sequence_parallel = false;
  model.micro_batch_size = 1;
  model.activations_checkpoint_granularity = RecomputeGranularity::none;
  model.num_micro_batches_with_partial_activation_checkpoints = model.activations_checkpoint_layers_per_pipeline = 0;
  return settings;
}

std::span<const ModelSize> gpt3_sizes() {
  static const std::vector<ModelSize> sizes{
      shipped("126m"),
      shaped("400m", "126m", {24, 1024, 16, 256, 3e-4}),
      shaped("1.3b", "5b", {24, 2048, 16, 512, 2e-4}),
      shaped("2.7b", "5b", {32, 2560, 32, 1024, 1.6e-4}),
      shipped("5b"),
      shaped("8b", "5b", {40, 4096, 32, 2048, 1.2e-4}),
      shaped("13b", "20b", {40, 5120, 40, 2048, 1e-4}),
      shipped("20b"),
      shipped("40b"),
      shaped("80b", "40b", {64, 10240, 80, 2048, 7e-5}),
      shipped("175b"),
      shaped("340b", "530b", {68, 20480, 128, 1920, 5e-5}),
      shipped("530b"),
      shaped("1t", "530b", {128, 25600, 160, 3072, 3e-5}),
  };
  return sizes;
}

BudgetPlan plan_budget(double days, const SearchOptions& options,
                       const std::function<PlanRequest(const ModelSize&)>& request_for) {
  BudgetPlan plan;
  std::vector<PlanRequest> requests;
  for (const ModelSize& size : gpt3_sizes()) {
    requests.push_back(request_for(size));
    plan.sizes.push_back({.size = &size,
                          .parameters = static_cast<double>(run_size(requests.back().settings).parameters),
                          .least_days = least_days(requests.back(), options),
                          .best = std::nullopt});
  }
  for (size_t i = plan.sizes.size(); i-- > 0 && plan.winner == nullptr;) {
    if (plan.sizes[i].least_days > days) continue;
    LayoutSearch search = search_layouts(requests[i], options);
    if (search.best.empty()) continue;
    plan.sizes[i].best = std::move(search.best.front());
    if (plan.sizes[i].best->days() <= days) plan.winner = &plan.sizes[i];
  }
  return plan;
}

double reference_size(double days, double gpus, double tokens) {
  constexpr double kSecondsPerDay = 86400, kFlops = 140e12, kFlopsPerParameterAndToken = 8;
  return days * kSecondsPerDay * gpus * kFlops / (kFlopsPerParameterAndToken * tokens);
}

}  // namespace trireme
