// Runs evaluation tasks on a model: all ranks score their part, rank 0 has the results.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "evaluate/metrics.h"
#include "evaluate/scoring_model.h"

namespace trireme {

struct EvaluationRequest {
  std::vector<Task> tasks;
  std::filesystem::path data;    // folder with the files of the tasks
  std::filesystem::path output;  // folder for results; empty: none are kept
  int64_t limit = 0;             // documents of each task; 0: all
  int64_t batch_tokens = 0;
  int64_t most_tokens = 0;  // that the model reads at once
  int32_t prefix = 0;
  std::optional<int32_t> begin = {};  // as in ScoringText
  FewShot shots = {};                 // for tasks other than perplexities

  FewShot shots_of(const Task& task) const { return task.kind == TaskKind::perplexity ? FewShot{} : shots; }
};

struct EvaluationHooks {
  std::function<void(const std::string& line)> tell;
  std::function<void(const std::string& task, int64_t done, int64_t of)> progress;  // requests
};

struct TaskResult {
  Task task;
  TaskDocuments documents;
  std::vector<Sample> samples;
  std::vector<RequestScore> scores;  // by request
  std::vector<MetricResult> metrics;
  int64_t scored_before = 0;  // requests, by an earlier run of this evaluation
  int64_t shots = 0;
  double seconds = 0;
};

// UserError, naming the file and how to get it, unless all files of the tasks are there.
void require_files(const EvaluationRequest& request);

// What a task asks of the model. UserError, naming the file and the place, for a document that is wrong.
struct TaskWork {
  TaskDocuments documents;
  TaskSamples samples;
};
TaskWork prepare_task(const EvaluationRequest& request, const Task& task, const Tokenizer& tokenizer);

// All ranks make this call together. Rank 0 gets the results, by task; the others nothing.
std::vector<TaskResult> run_evaluation(const EvaluationRequest& request, const Tokenizer& tokenizer, const std::string& identity,
                                       ScoringModel& model, World& world, const EvaluationHooks& hooks);

// Where the scores of a task are kept until the results are written.
std::filesystem::path progress_path(const EvaluationRequest& request, const Task& task);

}  // namespace trireme
