#include "telemetry/task_scores.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace trireme {

nlohmann::ordered_json json_of(const TaskScoresRecord& record) {
  nlohmann::ordered_json scores = nlohmann::ordered_json::object();
  for (const TaskScore& score : record.scores) scores[score.name()] = score.value;
  return {{"steps_done", record.steps_done}, {"seconds", record.seconds}, {"scores", std::move(scores)}};
}

TaskScoresSink::TaskScoresSink(std::string path, int64_t first_step, Notify notify)
    : path_(std::move(path)), first_step_(first_step), notify_(std::move(notify)) {
  if (std::filesystem::exists(path_)) file();
}

LogFile& TaskScoresSink::file() {
  if (file_) return *file_;
  file_.emplace(path_, notify_);
  file_->keep_lines([&](std::string_view line) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    return json.is_object() && json.value("steps_done", first_step_ + 1) <= first_step_;
  });
  return *file_;
}

void TaskScoresSink::task_scores(const TaskScoresRecord& record) {
  std::string line = json_text(json_of(record), kOneLine);
  file().append_line(line);
}

}  // namespace trireme
