#include "telemetry/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr std::string_view kRed = "\x1b[31m", kYellow = "\x1b[33m", kNoColour = "\x1b[0m";
constexpr std::string_view kEraseLine = "\r\x1b[K";

// Gradient norms range over many decades; this is seven characters for all that a run can show.
std::string grad_text(double norm) {
  const bool fixed = norm == 0 || (norm >= 1e-3 && norm < 1e3) || !std::isfinite(norm);
  return fixed ? fmt::format("{:>7.3f}", norm) : fmt::format("{:>7.1e}", norm);
}

}  // namespace

Console::Console(const ConsoleOptions& options, const Clock& clock) : options_(options), clock_(clock) {
  CHECK(options.total_steps > 0 && options.log_every_n_steps > 0);
}

void Console::step(const StepRecord& record) {
  const std::lock_guard lock(mutex_);
  steps_done_ = record.step + 1;
  if (options_.terminal.interactive) compose_bar_text(record);

  const bool wrong = record.skipped || record.loss_outlier_sigma || record.grad_outlier_sigma;
  const bool due = steps_done_ % options_.log_every_n_steps == 0 || steps_done_ == options_.total_steps || !any_step_shown_;
  if (due || wrong) {
    any_step_shown_ = true;
    compose_step_line(record);
    show(line_);
  } else if (options_.terminal.interactive && clock_.seconds() - bar_drawn_at_ >= kRedrawSeconds) {
    show({});
  }
}

void Console::validation(const ValidationRecord& record) {
  const std::lock_guard lock(mutex_);
  line_.clear();
  const size_t digits = fmt::formatted_size("{}", options_.total_steps);
  fmt::format_to(std::back_inserter(line_), "valid {:>{}}/{}  loss {:>7.4f}  perplexity {:.2f}  {} batches in {}",
                 record.steps_done, digits, options_.total_steps, record.loss, std::exp(record.loss), record.batches,
                 format_seconds(record.seconds));
  show(line_);
}

void Console::message(std::string_view text) {
  const std::lock_guard lock(mutex_);
  show(text);
}

void Console::finish() {
  const std::lock_guard lock(mutex_);
  bar_text_.clear();
  if (!bar_drawn_) return;
  bar_drawn_ = false;
  frame_ = kEraseLine;
  write_frame();
}

// ---------------------------------------------------------------------------------------------------------------- lines

void Console::compose_step_line(const StepRecord& record) {
  line_.clear();
  const auto out = std::back_inserter(line_);
  const size_t digits = fmt::formatted_size("{}", options_.total_steps);
  const double seconds_left = static_cast<double>(options_.total_steps - steps_done_) * record.mean_step_seconds;
  fmt::format_to(out, "step  {:>{}}/{}  loss {:>7.4f}  grad {}  lr {:.2e}  {:>8}  {:>6} tok/s  {:>14}", steps_done_, digits,
                 options_.total_steps, record.loss, grad_text(record.grad_norm), record.learning_rate,
                 format_seconds(record.step_seconds), format_count(std::round(record.tokens_per_second)),
                 format_flops(record.tflops_per_device * 1e12));
  if (record.mfu > 0) fmt::format_to(out, "  MFU {:4.1f}%", record.mfu * 100);
  fmt::format_to(out, "  eta {}", format_duration(seconds_left));
  append_flags(record);
}

void Console::append_flags(const StepRecord& record) {
  if (record.skipped) {
    append_coloured(kRed, "SKIPPED");
    line_ += ' ';
    line_ += record.nonfinite_where;
  }
  const auto append_outlier = [&](std::string_view what, std::optional<double> sigma) {
    if (sigma) append_coloured(kYellow, fmt::format("{} {:+.1f} sigma", what, *sigma));
  };
  append_outlier("loss", record.loss_outlier_sigma);
  append_outlier("grad", record.grad_outlier_sigma);
}

void Console::append_coloured(std::string_view colour, std::string_view text) {
  line_ += "  ";
  if (options_.terminal.colour) line_ += colour;
  line_ += text;
  if (options_.terminal.colour) line_ += kNoColour;
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
  // One column stays free: a terminal may wrap the line when the last one is filled.
  const int64_t columns = terminal_columns(options_.descriptor, options_.terminal.columns) - 1;
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

// Trouble with the terminal must not trouble the run: what cannot be written is dropped.
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
