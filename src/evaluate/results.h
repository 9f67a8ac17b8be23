// The results of an evaluation: a table, and files in the layout of lm-eval's, which tools that read those understand.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluate/evaluation.h"

namespace trireme {

// What the files say about the run as a whole.
struct EvaluationFacts {
  std::string model;  // as the user named it
  std::string dtype;
  std::string device;
  int64_t limit = 0;
  uint64_t fewshot_seed = 0;
  int64_t batch_tokens = 0;
  int64_t most_tokens = 0;
  int64_t ranks = 1;
  int64_t step = -1;
  int64_t parameters = 0;
  double start = 0, end = 0;  // seconds since 1970
};

nlohmann::ordered_json results_json(const EvaluationFacts& facts, const std::vector<TaskResult>& results);
std::string results_table(const std::vector<TaskResult>& results);

// Writes results_DATE.json and samples_TASK_DATE.jsonl, then removes the files of scores. Returns the path of the first.
std::filesystem::path write_results(const EvaluationRequest& request, const EvaluationFacts& facts,
                                    const std::vector<TaskResult>& results);

}  // namespace trireme
