// A progress line on stderr for commands over files. It is redrawn on a terminal and omitted elsewhere.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/units.h"

namespace trireme {

class DataProgress {
 public:
  DataProgress(std::string what, int64_t total_bytes)
      : what_(std::move(what)), total_(total_bytes), shown_(detect_terminal(STDERR_FILENO).interactive) {}
  ~DataProgress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
  }

  // `bytes` is the total done so far; callable from any thread.
  void operator()(int64_t bytes) {
    if (!shown_) return;
    const std::lock_guard lock(mutex_);
    constexpr double kSecondsBetween = 0.1;
    const double seconds = watch_.seconds();
    most_ = std::max(most_, bytes);
    if (seconds - last_ < kSecondsBetween) return;
    last_ = seconds;
    drawn_ = true;
    const double share = total_ == 0 ? 1 : std::min(1.0, static_cast<double>(most_) / static_cast<double>(total_));
    const double rate = static_cast<double>(most_) / seconds;
    fmt::print(stderr, "\r\033[K{} {:3.0f}%  {}/s  {} left", what_, 100 * share, format_bytes(static_cast<int64_t>(rate)),
               format_duration(rate > 0 ? static_cast<double>(total_ - most_) / rate : 0));
    std::fflush(stderr);
  }

 private:
  std::string what_;
  int64_t total_, most_ = 0;
  bool shown_, drawn_ = false;
  double last_ = 0;
  Stopwatch watch_;
  std::mutex mutex_;
};

}  // namespace trireme
