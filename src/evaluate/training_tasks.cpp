#include "evaluate/training_tasks.h"

#include "base/error.h"
#include "evaluate/evaluation.h"
#include "evaluate/model_tokenizer.h"

namespace trireme {
namespace {

constexpr int64_t kBatchTokens = 4096;

// The run's weights are read where they are.
void require_layout(const ModelSettings& model) {
  const auto require = [](bool condition, const char* key, const char* instead) {
    if (!condition) throw UserError("model.validation_tasks: scoring during training needs {}; {}", key, instead);
  };
  constexpr const char* kElse = "score checkpoints with trireme evaluate instead";
  require(model.context_parallel_size == 1, "model.context_parallel_size=1", kElse);
  require(model.virtual_pipeline_model_parallel_size == 1, "model.virtual_pipeline_model_parallel_size=1", kElse);
  require(!model.fsdp || model.fsdp_sharding_strategy != ShardingStrategy::full,
          "whole weights on each rank: model.fsdp=false or another model.fsdp_sharding_strategy than full", kElse);
  require(!model.fp8.enabled || !model.fp8.params, "weights in bf16: model.fp8_params=false", kElse);
}

class TrainingTasks final : public TaskScorer {
 public:
  explicit TrainingTasks(const RunSetup& setup)
      : setup_(setup), settings_(setup.settings), tokenizer_(open_recipe_tokenizer(setup.model, "this model")) {
    const ValidationTasksSettings& wanted = setup.model.validation_tasks;
    require_layout(setup.model);
    settings_.model = for_scoring(setup.model);
    request_ = {.tasks = load_tasks(wanted.tasks, "model.validation_tasks.tasks"),
                .data = wanted.data_dir,
                .output = {},
                .limit = wanted.limit,
                .batch_tokens = kBatchTokens,
                .most_tokens = setup.model.max_position_embeddings,
                .shots = {.count = wanted.num_fewshot}};
    require_files(request_);
    if (tokenizer_.tokenizer->vocabulary() > setup.model.vocab_size || tokenizer_.prefix() < 0)
      throw UserError("model.validation_tasks: the recipe's tokenizer has {} tokens{}, and model.vocab_size={}",
                      tokenizer_.tokenizer->vocabulary(), tokenizer_.prefix() < 0 ? ", none of which ends documents" : "",
                      setup.model.vocab_size);
    request_.prefix = tokenizer_.prefix();
    if (tokenizer_.begin.is_added) request_.begin = tokenizer_.begin.id;
    for (const Task& task : request_.tasks) prepare_task(request_, task, *tokenizer_.tokenizer);  // mistakes are found now
  }

  void rehearse(const Engine& engine) override {
    const int64_t T = std::min(request_.most_tokens, kBatchTokens), B = std::max<int64_t>(kBatchTokens / T, 1);
    ScoringModel(settings_, setup_.world, setup_, engine).prepare(std::vector<ScoringShape>{{.B = B, .T = T, .M = B * T}});
  }

  std::vector<TaskScore> score(const Engine& engine) override {
    ScoringModel model(settings_, setup_.world, setup_, engine);
    const EvaluationHooks hooks{.tell = [](const std::string&) {}, .progress = [](const std::string&, int64_t, int64_t) {}};
    std::vector<TaskScore> scores;
    for (const TaskResult& result : run_evaluation(request_, *tokenizer_.tokenizer, "", model, setup_.world, hooks))
      for (const MetricResult& metric : result.metrics)
        scores.push_back({.task = result.task.name, .metric = name_of(metric.metric), .value = metric.value});
    return scores;
  }

 private:
  const RunSetup& setup_;
  Settings settings_;
  ModelTokenizer tokenizer_;
  EvaluationRequest request_;
};

}  // namespace

std::unique_ptr<TaskScorer> make_task_scorer(const RunSetup& setup) { return std::make_unique<TrainingTasks>(setup); }

}  // namespace trireme
