#include "launch/attempt_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/json.h"
#include "launch/job.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLogFile = "attempts.json";
constexpr int64_t kLargestLog = 16 << 20;

std::string time_now() {
  std::string text;
  append_local_time(text, system_clock().unix_microseconds());
  text.resize(std::string_view("2026-01-01 00:00:00").size());
  return text;
}

nlohmann::ordered_json json_of(const Attempt& attempt) {
  return {{"attempt", attempt.number},
          {"started", attempt.started},
          {"ended", attempt.ended},
          {"first_step", attempt.first_step},
          {"last_step", attempt.last_step},
          {"exit_status", attempt.exit_status ? nlohmann::ordered_json(*attempt.exit_status) : nlohmann::ordered_json(nullptr)},
          {"reason", attempt.reason}};
}

Attempt attempt_of(const nlohmann::json& json) {
  Attempt attempt{.number = json.at("attempt"),
                  .started = json.at("started"),
                  .ended = json.at("ended"),
                  .first_step = json.at("first_step"),
                  .last_step = json.at("last_step"),
                  .exit_status = std::nullopt,
                  .reason = json.at("reason")};
  if (!json.at("exit_status").is_null()) attempt.exit_status = json.at("exit_status").get<int>();
  return attempt;
}

bool is_final(int exit_status) {
  return exit_status == kDone || exit_status == kUserError || exit_status == kStoppedAfterSaving || exit_status == kDoNotRetry;
}

}  // namespace

AttemptLog::AttemptLog(fs::path folder, fs::path run_folder, int64_t most_without_progress)
    : folder_(std::move(folder)),
      run_folder_(std::move(run_folder)),
      most_without_progress_(most_without_progress),
      attempts_(read_attempts(folder_)) {}

int64_t AttemptLog::begin() {
  const int64_t number = attempts_.empty() ? 1 : attempts_.back().number + 1;
  const int64_t step = newest_step(run_folder_);
  attempts_.push_back({.number = number,
                       .started = time_now(),
                       .ended = {},
                       .first_step = step,
                       .last_step = step,
                       .exit_status = std::nullopt,
                       .reason = {}});
  write();
  return number;
}

AttemptVerdict AttemptLog::end(int exit_status, const std::string& reason) {
  CHECK(!attempts_.empty());
  Attempt& attempt = attempts_.back();
  attempt.ended = time_now();
  attempt.last_step = newest_step(run_folder_);
  attempt.exit_status = exit_status;
  attempt.reason = reason;
  write();
  if (is_final(exit_status) || most_without_progress_ == 0) return {NextAction::finish, exit_status, reason};
  const int64_t without_progress = attempts_without_progress();
  if (without_progress >= most_without_progress_)
    return {NextAction::finish, kDoNotRetry,
            fmt::format("{}; {} attempts without a new checkpoint, not tried again", reason, without_progress)};
  return {NextAction::restart, exit_status, reason};
}

// Attempts whose end is unknown made progress if the next one began at a later step.
int64_t AttemptLog::attempts_without_progress() const {
  int64_t count = 0, later_step = attempts_.back().last_step;
  for (auto attempt = attempts_.rbegin(); attempt != attempts_.rend(); ++attempt) {
    const bool is_success = attempt != attempts_.rbegin() && attempt->exit_status && is_final(*attempt->exit_status);
    if (later_step > attempt->first_step || is_success) break;
    later_step = attempt->first_step;
    ++count;
  }
  return count;
}

void AttemptLog::write() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Attempt& attempt : attempts_) json.push_back(json_of(attempt));
  try {
    create_folders(folder_);
    atomic_write(folder_ / kLogFile, bytes_of(json_text(json) + "\n"));
  } catch (const Failure& failure) {
    fmt::print(stderr, "warning: the log of attempts cannot be written: {}\n", failure.what());
  }
}

std::vector<Attempt> read_attempts(const fs::path& folder) {
  std::vector<Attempt> attempts;
  std::error_code failed;
  if (!fs::exists(folder / kLogFile, failed)) return attempts;
  try {
    for (const nlohmann::json& json : parse_json(read_file(folder / kLogFile, kLargestLog))) attempts.push_back(attempt_of(json));
  } catch (const nlohmann::json::exception&) {
    attempts.clear();
  }
  return attempts;
}

}  // namespace trireme
