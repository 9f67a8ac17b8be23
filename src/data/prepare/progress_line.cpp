#include "data/prepare/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/units.h"

namespace trireme::prepare {

std::string format_progress(const ProgressNumbers& numbers, int columns) {
  const double share =
      numbers.bytes_total > 0
          ? std::clamp(static_cast<double>(numbers.bytes_read) / static_cast<double>(numbers.bytes_total), 0.0, 1.0)
          : 1.0;
  const std::string left = numbers.seconds_left < 0 ? "" : fmt::format("  {} left", format_duration(numbers.seconds_left));
  const std::string text =
      fmt::format(" {:3.0f} %  {:.1f} MB/s  {} tokens/s  {} documents{}", 100 * share, numbers.bytes_per_second / 1e6,
                  format_count(numbers.tokens_per_second), format_count(static_cast<double>(numbers.documents)), left);
  constexpr int kMostBar = 30, kLeastBar = 8;
  const int bar = std::min(kMostBar, columns - static_cast<int>(text.size()) - 3);
  if (bar < kLeastBar) return text.substr(1, static_cast<size_t>(std::max(columns - 1, 0)));
  const auto done = static_cast<size_t>(share * bar);
  std::string line = "[" + std::string(done, '=');
  if (done < static_cast<size_t>(bar)) line += ">" + std::string(static_cast<size_t>(bar) - done - 1, ' ');
  return line + "]" + text;
}

ProgressLine::ProgressLine(const Progress& progress, int64_t bytes_total)
    : progress_(progress), bytes_total_(bytes_total), terminal_(detect_terminal(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  if (terminal_.interactive) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::draw() {
  if (!terminal_.interactive) return;
  const double now = since_start_.seconds();
  ProgressNumbers numbers{.bytes_read = progress_.bytes_read,
                          .bytes_total = bytes_total_,
                          .tokens = progress_.tokens,
                          .documents = progress_.documents};
  if (first_at_ < 0) {
    first_at_ = now;
    first_read_ = numbers.bytes_read;
    first_input_ = progress_.input_bytes;
    first_tokens_ = numbers.tokens;
  }
  const double seconds = now - first_at_;
  if (seconds > 0.5) {
    numbers.bytes_per_second = static_cast<double>(progress_.input_bytes - first_input_) / seconds;
    numbers.tokens_per_second = static_cast<double>(numbers.tokens - first_tokens_) / seconds;
    const double rate = static_cast<double>(numbers.bytes_read - first_read_) / seconds;
    if (rate > 0) numbers.seconds_left = static_cast<double>(std::max<int64_t>(bytes_total_ - numbers.bytes_read, 0)) / rate;
  }
  fmt::print(stderr, "\r\033[K{}", format_progress(numbers, terminal_columns(STDERR_FILENO, terminal_.columns)));
}

}  // namespace trireme::prepare
