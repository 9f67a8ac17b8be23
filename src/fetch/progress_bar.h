// The progress of downloads: a bar redrawn in place on a terminal, or a line at intervals in a log.
//
//   [=========>          ]  47%  7.1 GiB of 15.0 GiB  3/15 files  312.4 MB/s  0:26 left
#pragma once

#include <string>

#include "base/terminal.h"
#include "fetch/fetch.h"

namespace trireme {

// Returns the text to the right of the bar. MB are 10^6 bytes.
std::string progress_text(const FetchProgress& progress);

class ProgressBar {
 public:
  explicit ProgressBar(int descriptor);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const FetchProgress& progress);
  void clear();  // removes the bar

 private:
  void write(const std::string& text) const;

  int descriptor_;
  Terminal terminal_;
  double shown_at_ = 0;  // elapsed seconds of the transfer
  bool drawn_ = false;
};

}  // namespace trireme
