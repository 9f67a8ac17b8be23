#include "fetch/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace trireme {
namespace {

constexpr double kLogSeconds = 30;
constexpr int kBarColumns = 22;

}  // namespace

std::string progress_text(const FetchProgress& progress) {
  const double rate = progress.seconds > 0 ? static_cast<double>(progress.bytes_brought) / progress.seconds : 0;
  const int64_t missing = std::max<int64_t>(progress.bytes_total - progress.bytes_done, 0);
  std::string text;
  if (progress.bytes_total > 0)
    text = fmt::format("{:3.0f}%  {} of {}",
                       100.0 * static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total),
                       format_bytes(progress.bytes_done), format_bytes(progress.bytes_total));
  else
    text = format_bytes(progress.bytes_done);  // the total size is unknown
  text += fmt::format("  {}/{} files  {:.1f} MB/s", progress.files_done, progress.files, rate / 1e6);
  if (rate > 0 && progress.bytes_total > 0)
    text += fmt::format("  {} left", format_duration(static_cast<double>(missing) / rate));
  return text;
}

ProgressBar::ProgressBar(int descriptor) : descriptor_(descriptor), terminal_(detect_terminal(descriptor)) {}

void ProgressBar::show(const FetchProgress& progress) {
  const std::string text = progress_text(progress);
  if (!terminal_.interactive) {
    if (progress.seconds - shown_at_ < kLogSeconds) return;
    shown_at_ = progress.seconds;
    return write(text + "\n");
  }
  std::string line;
  const int columns = terminal_columns(descriptor_, terminal_.columns);
  if (progress.bytes_total > 0 && columns > kBarColumns + static_cast<int>(text.size()) + 2) {
    const double part = std::min(1.0, static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total));
    const auto filled = static_cast<int>(part * (kBarColumns - 2));
    line = fmt::format("[{}{}{}]  ", std::string(static_cast<size_t>(filled), '='), filled < kBarColumns - 2 ? ">" : "",
                       std::string(static_cast<size_t>(std::max(kBarColumns - 3 - filled, 0)), ' '));
  }
  line += text;
  if (narrow<int>(line.size()) >= columns) line.resize(static_cast<size_t>(std::max(columns - 1, 0)));
  write("\r\x1b[K" + line);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) write("\r\x1b[K");
  drawn_ = false;
}

// A bar that cannot be drawn is not an error.
void ProgressBar::write(const std::string& text) const {
  [[maybe_unused]] const ssize_t written = ::write(descriptor_, text.data(), text.size());
}

}  // namespace trireme
