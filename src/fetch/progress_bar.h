// The bar below which files come: redrawn in place on a terminal, a line now and then in a log.
//
//   [=========>          ]  47%  7.1 GiB of 15.0 GiB  3/15 files  312.4 MB/s  0:26 left
#pragma once

#include <string>

#include "base/terminal.h"
#include "fetch/fetch.h"

namespace trireme {

// Without the bar itself: what stands to its right. MB are 10^6 bytes.
std::string progress_text(const FetchProgress& progress);

class ProgressBar {
 public:
  explicit ProgressBar(int descriptor);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const FetchProgress& progress);
  void clear();  // takes the bar away

 private:
  void write(const std::string& text) const;

  int descriptor_;
  Terminal terminal_;
  double shown_at_ = 0;  // seconds of the transfer
  bool drawn_ = false;
};

}  // namespace trireme
