// The scores of one task as they come, so that an evaluation that is killed continues: OUTPUT/progress_TASK.jsonl.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "evaluate/samples.h"

namespace trireme {

using ScoreTable = std::vector<std::optional<RequestScore>>;  // by request

class ProgressFile {
 public:
  // Reads the scores of an earlier run of the same work into `scores`. Those of other work are dropped; a line that a killed
  // run left incomplete too.
  ProgressFile(std::filesystem::path path, const std::string& fingerprint, ScoreTable& scores);

  // Appends lines as line_of makes them.
  void append(const std::string& lines) { file_->write(lines); }
  bool is_of_other_work() const { return of_other_work_; }

 private:
  std::filesystem::path path_;
  std::optional<File> file_;
  bool of_other_work_ = false;
};

std::string line_of(size_t request, const RequestScore& score);
// Fills in the scores of complete lines. Returns whether all were.
bool read_lines(std::string_view lines, ScoreTable& scores);

}  // namespace trireme
