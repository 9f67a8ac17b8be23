#include "launch/local/rank_logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "train/attempt_recorder.h"

namespace trireme {
namespace {

constexpr size_t kLongestLine = 64 << 10;  // longer ones are cut in log.txt
constexpr std::string_view kComplaint = "trireme: ";
constexpr const char* kMergedName = "log.txt";
constexpr mode_t kLogMode = 0644;

std::string prefix_of(int64_t rank) { return rank == 0 ? "" : fmt::format("[{}] ", rank); }

}  // namespace

RankLogs::RankLogs(std::filesystem::path folder, std::function<void(const std::string&)> warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  write(kMergedName, "");  // the file is there before anything is in it
}

RankLogs::~RankLogs() {
  for (const auto& [name, file] : files_)
    if (file.descriptor >= 0) ::close(file.descriptor);
}

void RankLogs::add(int64_t rank, std::string_view bytes) {
  write(fmt::format("rank-{:05}.log", rank), bytes);
  merge(prefix_of(rank), lines_[rank], bytes);
}

void RankLogs::end_of(int64_t rank) {
  if (const auto open = lines_.find(rank); open != lines_.end() && !open->second.empty()) add(rank, "\n");
}

void RankLogs::add_of_starter(const std::string& name, std::string_view bytes) { write(name + ".log", bytes); }

void RankLogs::quote(const std::string& name, std::string_view bytes) { merge(fmt::format("[{}] ", name), starter_line_, bytes); }

void RankLogs::say(std::string_view line) { write(kMergedName, fmt::format("launch  {}\n", line)); }

void RankLogs::merge(const std::string& prefix, std::string& line, std::string_view bytes) {
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = bytes.find('\n', begin);
    line.append(bytes.substr(begin, end - begin));
    if (end == std::string_view::npos && line.size() < kLongestLine) return;
    merge_line(prefix, line);
    line.clear();
    if (end == std::string_view::npos) return;
    begin = end + 1;
  }
}

void RankLogs::merge_line(const std::string& prefix, std::string_view line) {
  if (line.starts_with(kComplaint)) complaint_ = line.substr(kComplaint.size());
  if (line.starts_with(kFirstStepOfAttempt)) has_first_step_ = true;
  write(kMergedName, fmt::format("{}{}\n", prefix, line));
}

void RankLogs::write(const std::string& name, std::string_view text) {
  const std::filesystem::path path = folder_ / name;
  LogFile& file = files_[name];
  if (file.descriptor < 0) file.descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kLogMode);
  const std::string after_torn = file.is_torn ? fmt::format("\n{}", text) : "";
  if (file.is_torn) text = after_torn;
  const ssize_t written = file.descriptor < 0 ? -1 : ::write(file.descriptor, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    file.is_torn = false;
    return;
  }
  const int error = written < 0 ? errno : ENOSPC;
  if (written > 0) file.is_torn = text[static_cast<size_t>(written) - 1] != '\n';
  if (has_warned_) return;
  has_warned_ = true;
  warn_(fmt::format("warning: {} cannot be written: {}; the run continues without complete logs", path.string(),
                    std::strerror(error)));
}

}  // namespace trireme
