#include "telemetry/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "base/error.h"
#include "base/units.h"
#include "base/wrap.h"
#include "telemetry/step_text.h"

namespace trireme {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string message_text(Severity severity, std::string_view text, int columns, const Terminal& terminal) {
  constexpr int kLabelWidth = 8;  // of "memory  ", "run     " and all other labels
  if (severity == Severity::info) return wrapped(text, columns, kLabelWidth);
  return fmt::format("{} {}", inked(Ink::yellow, "warning:", terminal), text);
}

void print_message(Severity severity, std::string_view text) {
  const Terminal terminal = detect_terminal(STDERR_FILENO);
  std::fputs((message_text(severity, text, terminal.columns, terminal) + "\n").c_str(), stderr);
}

Console::Console(const ConsoleOptions& options, const Clock& clock) : options_(options), clock_(clock) {
  CHECK(options.total_steps > 0 && options.every_n_steps > 0);
}

void Console::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  steps_done_ = record.step + 1;
  if (options_.terminal.interactive) compose_bar_text(record);

  const bool due = steps_done_ % options_.every_n_steps == 0 || steps_done_ == options_.total_steps || !any_step_shown_;
  if (due || is_remarkable(record)) {
    any_step_shown_ = true;
    line_.clear();
    append_step_text(line_, record, options_.total_steps, columns(), options_.terminal.colour ? Colour::yes : Colour::no);
    show(line_);
  } else if (options_.terminal.interactive && clock_.seconds() - bar_drawn_at_ >= kRedrawSeconds) {
    show({});
  }
}

void Console::validation(const ValidationRecord& record) {
  const std::lock_guard lock(mutex_);
  line_.clear();
  append_validation_text(line_, record, options_.total_steps);
  show(line_);
}

void Console::task_scores(const TaskScoresRecord& record) {
  const std::lock_guard lock(mutex_);
  line_.clear();
  append_task_scores_text(line_, record, options_.total_steps);
  show(line_);
}

void Console::message(Severity severity, std::string_view text) {
  const std::lock_guard lock(mutex_);
  show(message_text(severity, text, columns(), options_.terminal));
}

void Console::take_bar_away() {
  const std::lock_guard lock(mutex_);
  bar_text_.clear();
  if (!bar_drawn_) return;
  bar_drawn_ = false;
  frame_ = kEraseLine;
  write_frame();
}

// ------------------------------------------------------------------------------------------------------------------ bar

void Console::compose_bar_text(const StepRecord& record) {
  bar_text_.clear();
  const double seconds_left = static_cast<double>(options_.total_steps - steps_done_) * record.mean_step_seconds;
  fmt::format_to(std::back_inserter(bar_text_), " {}/{}  {}%  loss {:.4f}  {} tok/s  eta {}", steps_done_, options_.total_steps,
                 100 * steps_done_ / options_.total_steps, record.loss, format_count(std::round(record.tokens_per_second)),
                 format_duration(seconds_left));
}

void Console::append_bar() {
  constexpr int64_t kNarrowest = 10;
  // Leaves one column free: a terminal may wrap when the last one is filled.
  const int64_t columns = this->columns() - 1;
  const int64_t width = columns - static_cast<int64_t>(bar_text_.size()) - 2;  // 2: the brackets
  if (width >= kNarrowest) {
    const int64_t filled = width * std::min(steps_done_, options_.total_steps) / options_.total_steps;
    frame_ += '[';
    frame_.append(static_cast<size_t>(filled), '=');
    if (filled < width) frame_ += '>';
    frame_.append(static_cast<size_t>(std::max<int64_t>(width - filled - 1, 0)), ' ');
    frame_ += ']';
    frame_ += bar_text_;
  } else {
    frame_ += std::string_view(bar_text_).substr(1, static_cast<size_t>(std::max<int64_t>(columns, 0)));
  }
}

void Console::show(std::string_view line) {
  frame_.clear();
  if (bar_drawn_) frame_ += kEraseLine;
  if (!line.empty()) {
    frame_ += line;
    frame_ += '\n';
  }
  bar_drawn_ = options_.terminal.interactive && !bar_text_.empty();
  if (bar_drawn_) {
    append_bar();
    bar_drawn_at_ = clock_.seconds();
  }
  write_frame();
}

// A terminal error must not affect the run, so unwritable output is dropped.
void Console::write_frame() {
  std::string_view rest = frame_;
  while (!rest.empty()) {
    const ssize_t written = ::write(options_.descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace trireme
