#include "evaluate/progress_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace trireme {

std::string line_of(size_t request, const RequestScore& score) {
  return fmt::format("[{},{},{}]\n", request, score.log_likelihood, score.is_greedy ? 1 : 0);
}

bool read_lines(std::string_view lines, ScoreTable& scores) {
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    if (end == lines.npos) return false;
    const nlohmann::json line = try_parse_json(lines.substr(0, end));
    lines.remove_prefix(end + 1);
    const bool is_line = line.is_array() && line.size() == 3 && line[0].is_number_unsigned() && line[1].is_number();
    if (!is_line || line[0].get<size_t>() >= scores.size()) return false;
    scores[line[0].get<size_t>()] = {.log_likelihood = line[1].get<double>(), .is_greedy = line[2] == 1};
  }
  return true;
}

ProgressFile::ProgressFile(std::filesystem::path path, const std::string& fingerprint, ScoreTable& scores)
    : path_(std::move(path)) {
  constexpr int64_t kLargest = int64_t{1} << 32;
  const std::string head = fmt::format("{{\"scores_of\": \"{}\"}}\n", fingerprint);
  std::string kept = head;
  if (std::filesystem::exists(path_)) {
    const std::string there = read_file(path_, kLargest);
    of_other_work_ = !there.starts_with(head);
    if (!of_other_work_) {
      read_lines(std::string_view(there).substr(head.size()), scores);
      for (size_t i = 0; i < scores.size(); ++i)
        if (scores[i]) kept += line_of(i, *scores[i]);
    }
  }
  atomic_write(path_, bytes_of(kept));
  file_ = File::open_append(path_);
}

}  // namespace trireme
