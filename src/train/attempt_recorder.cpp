#include "train/attempt_recorder.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace trireme {
namespace {

constexpr double kWriteEvery = 0.25;  // seconds

TimeUse use_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::start_up:
      return TimeUse::start_up;
    case RunPhase::first_steps:
    case RunPhase::step:
    case RunPhase::device_step:
      return TimeUse::step;
    case RunPhase::data:
      return TimeUse::data;
    case RunPhase::first_validation:
    case RunPhase::validation:
      return TimeUse::validation;
    case RunPhase::checkpoint:
      return TimeUse::checkpoint;
    case RunPhase::profiling:
    case RunPhase::stopping:
      return TimeUse::other;
  }
  return TimeUse::other;
}

}  // namespace

int64_t next_attempt_number(const std::filesystem::path& file) {
  const std::vector<RunAttempt> attempts = read_attempts_of_run(file);
  return attempts.empty() ? 1 : attempts.back().number + 1;
}

AttemptRecorder::AttemptRecorder(std::filesystem::path file, int64_t number, int64_t ranks, ActivityBoard& board,
                                 RecordWriter writer)
    : file_(std::move(file)), board_(board), writer_(writer) {
  attempt_.number = number;
  attempt_.ranks = ranks;
  update_times();
  attempt_.started = system_clock().unix_microseconds() - attempt_.times.total();
  if (writer_ == RecordWriter::no) return;
  earlier_ = read_attempts_of_run(file_);
  const std::lock_guard lock(mutex_);
  write();
}

void AttemptRecorder::update_times() {
  attempt_.times = {};
  const ActivityBoard::PhaseTimes& phases = board_.times();
  for (size_t phase = 0; phase < phases.size(); ++phase) attempt_.times[use_of(static_cast<RunPhase>(phase))] += phases[phase];
}

// A record that cannot be written (a full disk) costs figures of the report, nothing else; the disk is complained about by
// others.
void AttemptRecorder::write() {
  if (writer_ == RecordWriter::no || has_ended_) return;
  written_at_ = system_clock().seconds();
  try {
    write_attempt(file_, attempt_);
  } catch (const Failure&) {
    return;
  }
}

void AttemptRecorder::begin_training(int64_t first_step) {
  const std::lock_guard lock(mutex_);
  attempt_.first_step = attempt_.steps_done = first_step;
  update_times();
  write();
}

void AttemptRecorder::note_step(int64_t steps_done) {
  if (writer_ == RecordWriter::no) return;
  const std::lock_guard lock(mutex_);
  attempt_.steps_done = steps_done;
  if (system_clock().seconds() < written_at_ + kWriteEvery) return;
  update_times();
  write();
}

void AttemptRecorder::note_saved(int64_t step) {
  if (writer_ == RecordWriter::no) return;
  const std::lock_guard lock(mutex_);
  update_times();
  attempt_.steps_done = step;
  if (attempt_.marks.size() == RunAttempt::kMostMarks) attempt_.marks.erase(attempt_.marks.begin());
  attempt_.marks.push_back({.step = step, .times = attempt_.times});
  write();
}

void AttemptRecorder::end(int status, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  update_times();
  attempt_.ending = {.at = attempt_.clock(), .status = status, .unnoticed = 0, .reason = reason};
  write();
  has_ended_ = true;
}

RunTime AttemptRecorder::time() {
  const std::lock_guard lock(mutex_);
  update_times();
  std::vector<RunAttempt> attempts = earlier_;
  attempts.push_back(attempt_);
  return account_of(attempts);
}

// The rank that speaks need not be the one that writes the line.
void AttemptRecorder::note_failure(const JobEnd& end) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_ended_, true)) return;
  try {
    RunAttempt attempt = attempt_;
    if (writer_ == RecordWriter::no) {
      const std::vector<RunAttempt> attempts = read_attempts_of_run(file_);
      const auto own = std::ranges::find(attempts, attempt_.number, &RunAttempt::number);
      if (own == attempts.end()) return;
      attempt = *own;
    }
    attempt.steps_done = std::max(attempt.steps_done, board_.seen().step);
    attempt.ending = {.at = system_clock().unix_microseconds(),
                      .status = end.status,
                      .unnoticed = static_cast<int64_t>(end.unnoticed * 1e6),
                      .reason = end.line};
    write_attempt(file_, attempt);
  } catch (const Failure&) {
    return;
  }
}

}  // namespace trireme
