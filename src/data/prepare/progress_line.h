// The progress bar while data is prepared; shows nothing if stderr is not a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/terminal.h"
#include "data/prepare/pipeline.h"

namespace trireme::prepare {

struct ProgressNumbers {
  int64_t bytes_read = 0, bytes_total = 0;
  int64_t tokens = 0, documents = 0;
  double bytes_per_second = 0, tokens_per_second = 0;
  double seconds_left = -1;  // negative: not known yet
};

// Returns "[=====>    ]  52 %  205.1 MB/s  61.4M tokens/s  1.2M documents  0:42 left" in at most `columns` columns.
std::string format_progress(const ProgressNumbers& numbers, int columns);

class ProgressLine {
 public:
  ProgressLine(const Progress& progress, int64_t bytes_total);
  ~ProgressLine();  // clears the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void draw();

 private:
  const Progress& progress_;
  int64_t bytes_total_;
  Terminal terminal_;
  Stopwatch since_start_;
  double first_at_ = -1;  // rates count from the first update, so an earlier run's work does not count as speed
  int64_t first_read_ = 0, first_input_ = 0, first_tokens_ = 0;
};

}  // namespace trireme::prepare
