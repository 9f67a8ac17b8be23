// task_scores.jsonl: a line for each time that the model was scored on tasks,
// {"steps_done": 100, "seconds": 3.2, "scores": {"piqa/acc": 0.61}}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "telemetry/log_file.h"

namespace trireme {

inline constexpr const char* kTaskScoresName = "task_scores.jsonl";

nlohmann::ordered_json json_of(const TaskScoresRecord& record);

class TaskScoresSink final : public Sink {
 public:
  // Removes scores after `first_step`, which a resumed run makes again. The file is made with the first scores.
  TaskScoresSink(std::string path, int64_t first_step, Notify notify);

  void step(const StepRecord&) override {}
  void task_scores(const TaskScoresRecord& record) override;

 private:
  LogFile& file();

  std::string path_;
  int64_t first_step_;
  Notify notify_;
  std::optional<LogFile> file_;
};

}  // namespace trireme
