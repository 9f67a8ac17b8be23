#include "telemetry/step_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "base/units.h"

namespace trireme {
namespace {

constexpr std::string_view kRed = "\x1b[31m", kYellow = "\x1b[33m", kNoColour = "\x1b[0m";

// Gradient norms span many decades; this takes seven characters for all realistic values.
std::string grad_text(double norm) {
  const bool fixed = norm == 0 || (norm >= 1e-3 && norm < 1e3) || !std::isfinite(norm);
  return fixed ? fmt::format("{:>7.3f}", norm) : fmt::format("{:>7.1e}", norm);
}

void append_flags(std::string& out, const StepRecord& record, Colour colour) {
  const auto append = [&](std::string_view escape, std::string_view text) {
    out += "  ";
    if (colour == Colour::yes) out += escape;
    out += text;
    if (colour == Colour::yes) out += kNoColour;
  };
  if (record.skipped) {
    append(kRed, "SKIPPED");
    out += ' ';
    out += record.nonfinite_where;
    if (record.loss_scale) out += fmt::format(" with loss scale {:g}", *record.loss_scale);
  }
  if (record.loss_outlier_sigma) append(kYellow, fmt::format("loss {:+.1f} sigma", *record.loss_outlier_sigma));
  if (record.grad_outlier_sigma) append(kYellow, fmt::format("grad {:+.1f} sigma", *record.grad_outlier_sigma));
}

}  // namespace

void append_step_text(std::string& text, const StepRecord& record, int64_t total_steps, int columns, Colour colour) {
  const auto out = std::back_inserter(text);
  const int64_t steps_done = record.step + 1;
  const size_t digits = fmt::formatted_size("{}", total_steps);
  const std::string eta = format_duration(static_cast<double>(total_steps - steps_done) * record.mean_step_seconds);

  // Step, loss, gradient norm, time and tokens/s are always shown; the most useful others are added while there is room.
  constexpr size_t kAlwaysThere = 59;
  size_t room = static_cast<size_t>(columns) - std::min(static_cast<size_t>(columns), kAlwaysThere + 2 * digits);
  const auto fits = [&room](size_t width) {
    if (width > room) return false;
    room -= width;
    return true;
  };
  const bool shows_mfu = record.mfu > 0 && fits(11);
  const bool shows_eta = fits(6 + eta.size());
  const bool shows_lr = fits(13);
  const bool shows_flops = fits(16);

  fmt::format_to(out, "step  {:>{}}/{}  loss {:>7.4f}  grad {}", steps_done, digits, total_steps, record.loss,
                 grad_text(record.grad_norm));
  if (shows_lr) fmt::format_to(out, "  lr {:.2e}", record.learning_rate);
  fmt::format_to(out, "  {:>8}  {:>6} tok/s", format_seconds(record.step_seconds),
                 format_count(std::round(record.tokens_per_second)));
  if (shows_flops) fmt::format_to(out, "  {:>14}", format_flops(record.tflops_per_device * 1e12));
  if (shows_mfu) fmt::format_to(out, "  MFU {:4.1f}%", record.mfu * 100);
  if (shows_eta) fmt::format_to(out, "  eta {}", eta);
  append_flags(text, record, colour);
}

void append_validation_text(std::string& text, const ValidationRecord& record, int64_t total_steps) {
  const size_t digits = fmt::formatted_size("{}", total_steps);
  fmt::format_to(std::back_inserter(text), "valid {:>{}}/{}  loss {:>7.4f}  perplexity {:.2f}  {} batches in {}",
                 record.steps_done, digits, total_steps, record.loss, std::exp(record.loss), record.batches,
                 format_seconds(record.seconds));
}

void append_task_scores_text(std::string& text, const TaskScoresRecord& record, int64_t total_steps) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "tasks {:>{}}/{}", record.steps_done, fmt::formatted_size("{}", total_steps), total_steps);
  std::string_view task;
  for (const TaskScore& score : record.scores) {
    fmt::format_to(out, "{}{} {:.4f}", score.task == task ? " " : fmt::format("  {} ", score.task), score.metric, score.value);
    task = score.task;
  }
  fmt::format_to(out, "  in {}", format_seconds(record.seconds));
}

}  // namespace trireme
