#include "telemetry/text_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "telemetry/step_text.h"

namespace trireme {
namespace {

bool any_line(std::string_view) { return true; }

// Formats 75 seconds as 01:15, and an hour more as 1:01:15.
std::string bar_time(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(seconds, 0.0));
  const std::string minutes = fmt::format("{:02}:{:02}", whole / 60 % 60, whole % 60);
  return whole < 3600 ? minutes : fmt::format("{}:{}", whole / 3600, minutes);
}

}  // namespace

// ----------------------------------------------------------------------------------------------------------------- NeMo

std::string text_log_name(int global_rank, int local_rank) {
  return fmt::format("nemo_log_globalrank-{}_localrank-{}.txt", global_rank, local_rank);
}

TextLogSink::TextLogSink(const std::string& path, const std::string& error_path, int64_t total_steps, Notify notify,
                         const Clock& clock, ErrorLogOf errors)
    : total_steps_(total_steps),
      clock_(clock),
      all_(path, notify),
      errors_(error_path, std::move(notify), errors == ErrorLogOf::one_rank ? LogWriters::this_one : LogWriters::many) {
  all_.keep_lines(any_line);
  if (errors != ErrorLogOf::other_rank) errors_.keep_lines(any_line);
}

void TextLogSink::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  steps_done_ = record.step + 1;
  if (!record.logged && !is_remarkable(record)) return;
  text_.clear();
  append_step_text(text_, record, total_steps_, kAnyColumns, Colour::no);
  write(is_remarkable(record) ? 'W' : 'I', text_);
}

void TextLogSink::validation(const ValidationRecord& record) {
  const std::lock_guard lock(mutex_);
  text_.clear();
  append_validation_text(text_, record, total_steps_);
  write('I', text_);
}

void TextLogSink::task_scores(const TaskScoresRecord& record) {
  const std::lock_guard lock(mutex_);
  text_.clear();
  append_task_scores_text(text_, record, total_steps_);
  write('I', text_);
}

void TextLogSink::message(Severity severity, std::string_view text) {
  const std::lock_guard lock(mutex_);
  write(severity == Severity::warning ? 'W' : 'I', text);
}

void TextLogSink::finish(const RunEnding& ending) {
  const std::lock_guard lock(mutex_);
  steps_done_ = ending.steps_done;
  switch (ending.outcome) {
    case RunOutcome::finished:
      return write('I', "the run is finished");
    case RunOutcome::out_of_time:
      return write('I', "the run is over because trainer.max_time is");
    case RunOutcome::stopped_by_signal:
      return write('I', "the run was stopped by a signal");
    case RunOutcome::failed:
      return write('E', ending.reason);
  }
}

void TextLogSink::write(char letter, std::string_view text) {
  line_ = "[NeMo ";
  line_ += letter;
  line_ += ' ';
  append_local_time(line_, clock_.unix_microseconds());
  line_.resize(line_.size() - std::string_view(".000000").size());  // precise to the second
  fmt::format_to(std::back_inserter(line_), " train:{}] ", steps_done_);
  for (const char c : text) {
    line_ += c;
    if (c == '\n') line_ += "    ";
  }
  if (letter != 'I') {
    text_ = line_;
    errors_.append_line(text_);
  }
  all_.append_line(line_);
}

// ------------------------------------------------------------------------------------------------------------ Lightning

LightningLogSink::LightningLogSink(const std::string& path, int64_t total_steps, Notify notify, const Clock& clock)
    : total_steps_(total_steps), elapsed_(clock), file_(path, std::move(notify)) {
  file_.keep_lines(any_line);
}

void LightningLogSink::step(const StepRecord& record) {
  if (!record.logged) return;
  constexpr int64_t kWidth = 10;
  const int64_t done = record.step + 1;
  const int64_t filled = kWidth * done / total_steps_;
  const double seconds_left = static_cast<double>(total_steps_ - done) * record.mean_step_seconds;
  line_.clear();
  fmt::format_to(std::back_inserter(line_),
                 "Epoch {}: {:>3}%|{:#<{}}{:<{}}| {}/{} [{}<{}, {:.2f}it/s, v_num=, reduced_train_loss={:.2f}, "
                 "global_step={}.00, consumed_samples={}.0]",
                 record.epoch, 100 * done / total_steps_, "", filled, "", kWidth - filled, done, total_steps_,
                 bar_time(elapsed_.seconds()), bar_time(seconds_left),
                 record.mean_step_seconds > 0 ? 1 / record.mean_step_seconds : 0.0, record.loss, record.step,
                 record.consumed_samples);
  file_.append_line(line_);
}

void LightningLogSink::finish(const RunEnding& ending) {
  switch (ending.outcome) {
    case RunOutcome::finished:
      return file_.append(fmt::format("`Trainer.fit` stopped: `max_steps={}` reached.\n", total_steps_));
    case RunOutcome::out_of_time:
      return file_.append("Time limit reached. Signaling Trainer to stop.\n");
    case RunOutcome::stopped_by_signal:
      return file_.append("Received a signal. Signaling Trainer to stop.\n");
    case RunOutcome::failed:
      return file_.append(fmt::format("Error: {}\n", ending.reason));
  }
}

}  // namespace trireme
