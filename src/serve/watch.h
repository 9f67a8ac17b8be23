// A run in a terminal: a frame of text with its curves, its ranks and the end of its log.
#pragma once

#include <optional>
#include <string>

#include "base/terminal.h"
#include "report/read_run.h"
#include "serve/run_feed.h"
#include "serve/run_index.h"

namespace trireme {

class TerminalWatch {
 public:
  // UserError if `path` holds no run. Of a folder of runs, the newest.
  explicit TerminalWatch(const std::string& path);

  bool update();  // reads on; returns whether anything changed
  bool is_read() const { return feed_.is_whole(); }
  std::optional<RunStatus> ending() const;  // how the run ended; nothing while it may go on
  std::string exit_line() const;            // "finished after 600 steps in 0:58, loss 0.1059: runs/demo"

  // The frame, lines of at most `columns` columns and at most `rows` of them; as many as there is something to show if rows is 0.
  std::string frame(int columns, int rows, const Terminal& terminal) const;

 private:
  std::string header(int columns, const Terminal& terminal) const;
  std::string progress_line(int columns) const;
  std::string rank_line(int columns) const;
  std::string two_charts(int columns, int rows) const;
  void append_chart(std::string& text, Quantity quantity, int columns, int rows) const;

  const RunPlace place_;
  const bool is_folder_;  // whose files may become more
  RunFeed feed_;
};

// The text without what a terminal would obey, cut to `columns`. A log may contain anything.
std::string terminal_line(std::string_view text, int columns);

}  // namespace trireme
