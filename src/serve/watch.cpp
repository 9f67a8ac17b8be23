#include "serve/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/units.h"
#include "base/utf8.h"
#include "report/run_files.h"
#include "serve/log_tail.h"
#include "serve/rank_times.h"
#include "serve/terminal_chart.h"

namespace trireme {
namespace {

constexpr double kLookSeconds = 0.5;
constexpr size_t kRanksShown = 1024;
constexpr int64_t kQuietSeconds = 120;

std::string value_text(Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::step_seconds:
      return format_seconds(value);
    case Quantity::tokens_per_second:
      return value >= 1e6 ? fmt::format("{:.3f}M", value / 1e6) : format_count(value);
    case Quantity::tflops:
      return format_flops(value * 1e12);
    case Quantity::mfu:
      return fmt::format("{:.1f}%", value * 100);
    case Quantity::memory:
      return format_bytes(static_cast<int64_t>(value));
    case Quantity::learning_rate:
      return fmt::format("{:.2e}", value);
    default:
      return fmt::format("{:.4f}", value);
  }
}

// The latest value of a curve that is noisy in time is the median of a few.
std::string latest_text(const RunFeed& feed, Quantity quantity) {
  const History& history = feed.of(quantity);
  if (history.empty()) return "";
  const bool is_speed = quantity == Quantity::step_seconds || quantity == Quantity::tokens_per_second ||
                        quantity == Quantity::tflops || quantity == Quantity::mfu;
  return value_text(quantity, is_speed ? history.recent_median(kRecentSteps) : history.back().value);
}

// "[NeMo W 2026-11-15 06:39:23 train:3] text" as "06:39:23 W text", so that it fits a terminal.
std::string shortened(const std::string& line) {
  constexpr size_t kLetter = 6, kTime = 19, kTimeEnd = 27;
  const size_t end = line.find("] ");
  if (!line.starts_with("[NeMo ") || end == line.npos || end < kTimeEnd) return line;
  return fmt::format("{} {} {}", line.substr(kTime, kTimeEnd - kTime), line[kLetter], line.substr(end + 2));
}

int64_t age_of_log(const RunFeed& feed) {
  std::error_code failed;
  const auto time = std::filesystem::last_write_time(feed.log_path(), failed);
  if (failed) return 0;
  const auto age = std::filesystem::file_time_type::clock::now() - time;
  return std::max<int64_t>(std::chrono::duration_cast<std::chrono::seconds>(age).count(), 0);
}

}  // namespace

std::string terminal_line(std::string_view text, int columns) {
  const std::string clean = as_utf8(text);
  std::string line;
  int used = 0;
  for (size_t i = 0; i < clean.size(); ++i) {
    const auto byte = static_cast<unsigned char>(clean[i]);
    const bool begins = (byte & 0xC0) != 0x80;
    const bool is_control =
        byte < 0x20 || byte == 0x7F || (byte == 0xC2 && i + 1 < clean.size() && static_cast<unsigned char>(clean[i + 1]) < 0xA0);
    if (begins && used == columns) break;
    if (begins) ++used;
    if (!is_control) {
      line += clean[i];
      continue;
    }
    line += ' ';
    if (byte == 0xC2) ++i;
  }
  return line;
}

TerminalWatch::TerminalWatch(const std::string& path)
    : place_(find_run(path)), is_folder_(std::filesystem::is_directory(path)), feed_(place_.files, {}) {}

bool TerminalWatch::update() {
  RunFiles files = is_folder_ ? files_in(place_.folder) : RunFiles{};
  if (files.has_log()) {
    files.settings = place_.files.settings;
    feed_.set_files(files);
  }
  return feed_.update(kLookSeconds);
}

std::optional<RunStatus> TerminalWatch::ending() const {
  if (const auto ended = ending_of(place_.folder)) return ended;
  const bool is_complete = feed_.planned_steps() && feed_.steps_done() >= feed_.planned_steps() &&
                           !std::filesystem::exists(place_.folder / "joblog.log");
  return is_complete ? std::optional(RunStatus::finished) : std::nullopt;
}

std::string TerminalWatch::exit_line() const {
  const RunStatus status = ending().value_or(RunStatus::quiet);
  std::string line = fmt::format("{} after {} steps", name_of(status), feed_.steps_done().value_or(0));
  if (!feed_.elapsed().empty()) line += " in " + format_duration(feed_.elapsed().back().value);
  if (!feed_.of(Quantity::loss).empty()) line += ", loss " + latest_text(feed_, Quantity::loss);
  line += ": " + place_.folder.string();
  if (status == RunStatus::failed && !feed_.files().rank_logs.empty())
    for (const std::string& last : last_lines(feed_.files().rank_logs.front(), 1, 4096)) line += "\n" + terminal_line(last, 1000);
  return line;
}

std::string TerminalWatch::header(int columns, const Terminal& terminal) const {
  const auto ended = ending();
  const int64_t age = age_of_log(feed_);
  std::string state = ended                 ? name_of(*ended)
                      : age < kQuietSeconds ? "running"
                                            : fmt::format("no record for {}", format_duration(static_cast<double>(age)));
  if (!feed_.is_whole()) state = fmt::format("reading {:.0f}%", feed_.share_read() * 100);
  const Ink ink = ended == RunStatus::failed ? Ink::red : !ended && age >= kQuietSeconds ? Ink::yellow : Ink::green;
  const std::string name = terminal_line(place_.name, std::max(columns - columns_of(state) - 2, 8));
  return fmt::format("{}  {}\n", inked(Ink::bold, name, terminal), inked(ink, state, terminal));
}

std::string TerminalWatch::progress_line(int columns) const {
  const auto done = feed_.steps_done(), planned = feed_.planned_steps();
  if (!done) return "no step is logged yet\n";
  const double step = feed_.of(Quantity::step_seconds).recent_median(kRecentSteps);
  std::string text =
      planned ? fmt::format("{}/{}  {}%", *done, *planned, 100 * *done / *planned) : fmt::format("{} steps", *done);
  if (planned && *planned > *done && step > 0 && !ending())
    text += "  eta " + format_duration(static_cast<double>(*planned - *done) * step);
  if (!feed_.elapsed().empty()) text += "  so far " + format_duration(feed_.elapsed().back().value);
  const int width = columns - columns_of(text) - 3;
  if (!planned || width < 10) return terminal_line(text, columns) + "\n";
  const double share = std::min(static_cast<double>(*done) / static_cast<double>(*planned), 1.0);
  const auto filled = static_cast<size_t>(width * std::max(share, 0.0));
  return fmt::format("[{}{}] {}\n", std::string(filled, '='), std::string(static_cast<size_t>(width) - filled, ' '), text);
}

void TerminalWatch::append_chart(std::string& text, Quantity quantity, int columns, int rows) const {
  const auto label = [quantity](double value) { return value_text(quantity, value); };
  for (const std::string& line : draw_chart(feed_.of(quantity), {.columns = columns, .rows = rows, .label = label}))
    text += line + "\n";
}

// Step time and tokens per second, side by side.
std::string TerminalWatch::two_charts(int columns, int rows) const {
  const int half = (columns - 2) / 2;
  std::string titles;
  std::array<std::vector<std::string>, 2> charts;
  for (const auto& [index, quantity] : {std::pair{0, Quantity::step_seconds}, {1, Quantity::tokens_per_second}}) {
    const std::string title =
        fmt::format("{} {}", quantity == Quantity::step_seconds ? "step time" : "tokens/s", latest_text(feed_, quantity));
    titles += index == 0 ? fmt::format("{:<{}}", title, half + 2) : title + "\n";
    const auto label = [quantity = quantity](double value) { return value_text(quantity, value); };
    const auto range = quantity == Quantity::step_seconds ? TerminalChart::Range::usual : TerminalChart::Range::all;
    charts[static_cast<size_t>(index)] =
        draw_chart(feed_.of(quantity), {.columns = half, .rows = rows, .label = label, .range = range});
  }
  std::string text = titles;
  for (size_t row = 0; row < charts[0].size(); ++row) {
    const int gap = half - columns_of(charts[0][row]) + 2;
    text += charts[0][row] + std::string(static_cast<size_t>(std::max(gap, 1)), ' ') + charts[1][row] + "\n";
  }
  return text;
}

std::string TerminalWatch::rank_line(int columns) const {
  const auto& logs = feed_.files().rank_logs;
  if (logs.size() < 2) return "";
  std::vector<double> seconds;
  for (size_t i = 0; i < std::min(logs.size(), kRanksShown); ++i) {
    double last = std::numeric_limits<double>::quiet_NaN();
    for (const std::string& line : last_lines(logs[i], 20, 4096))
      if (const StepTime time = step_time_in(line); time.step >= 0) last = time.seconds;
    seconds.push_back(last);
  }
  const auto slowest = std::ranges::max_element(seconds, {}, [](double value) { return std::isnan(value) ? -1 : value; });
  std::string text =
      fmt::format("{} ranks  slowest rank {} with {}  ", logs.size(), slowest - seconds.begin(), format_seconds(*slowest));
  const auto room = static_cast<size_t>(std::max(columns - columns_of(text), 0));
  seconds.resize(std::min(seconds.size(), room));
  return text + draw_bars(seconds) + "\n";
}

std::string TerminalWatch::frame(int columns, int rows, const Terminal& terminal) const {
  columns = std::max(columns, 40);
  std::string text = header(columns, terminal) + progress_line(columns);
  std::string facts;
  for (const auto& [name, quantity] : {std::pair{"loss", Quantity::loss},
                                       {"validation", Quantity::validation_loss},
                                       {"grad norm", Quantity::grad_norm},
                                       {"lr", Quantity::learning_rate},
                                       {"MFU", Quantity::mfu},
                                       {"memory", Quantity::memory}})
    if (const std::string value = latest_text(feed_, quantity); !value.empty())
      facts += fmt::format("{}{} {}", facts.empty() ? "" : "  ", name, value);
  text += terminal_line(facts, columns) + "\n";
  const std::string ranks = rank_line(columns);
  const int fixed = 5 + (ranks.empty() ? 0 : 1);
  const int room = rows > 0 ? rows - fixed : 18;
  const int loss_rows = std::clamp(room * 2 / 5, 2, 14), speed_rows = std::clamp(room / 4, 2, 8);
  append_chart(text, Quantity::loss, columns, loss_rows);
  text += two_charts(columns, speed_rows) + ranks;
  const auto& logs = feed_.files().rank_logs;
  const int log_lines = room - loss_rows - speed_rows;
  if (log_lines > 0 && !logs.empty())
    for (const std::string& line : last_lines(logs.front(), static_cast<size_t>(log_lines), 16384))
      text += terminal_line(shortened(line), columns) + "\n";
  return text;
}

}  // namespace trireme
