// The console output of a run, on stderr: one line per step, and on a terminal a progress bar below them.
//
//   step  120/300  loss  2.3412  grad   0.840   64.1 ms   31.9k tok/s  MFU 41.3%
//   valid 120/300  loss  2.4012  perplexity 11.04  50 batches in 1.23 s
//   [=============>                   ] 120/300  40%  loss 2.3412  31.9k tok/s  eta 0:12
//
// A step's line has the values of that step, not averages; eta uses the running mean. Lines fit the terminal, or 80 columns
// without one. A wider terminal also shows lr, TFLOP/s and eta in the line.
#pragma once

#include <unistd.h>

#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/terminal.h"
#include "telemetry/step_record.h"

namespace trireme {

struct ConsoleOptions {
  int64_t total_steps = 0;
  int64_t every_n_steps = 1;  // the first step, the last step and remarkable steps are always shown
  int descriptor = STDERR_FILENO;
  Terminal terminal = detect_terminal(STDERR_FILENO);
};

// Formats a message: information wrapped to `columns`, a warning in one line that starts with "warning:".
std::string message_text(Severity severity, std::string_view text, int columns, const Terminal& terminal);

// Shows a message on stderr where there is no Console yet. Output that cannot be written is dropped: it is not a reason to end a
// run.
void print_message(Severity severity, std::string_view text);

// Messages may come from any thread. Each line and the bar below it are one write, so concurrent lines do not mix.
class Console final : public Sink {
 public:
  explicit Console(const ConsoleOptions& options, const Clock& clock = system_clock());
  ~Console() override { take_bar_away(); }

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;
  void task_scores(const TaskScoresRecord& record) override;
  void message(Severity severity, std::string_view text) override;
  void finish(const RunEnding&) override { take_bar_away(); }

 private:
  static constexpr double kRedrawSeconds = 0.1;

  int columns() const { return terminal_columns(options_.descriptor, options_.terminal.columns); }
  void take_bar_away();
  void compose_bar_text(const StepRecord& record);  // writes to bar_text_
  void append_bar();                                // appends to frame_
  void show(std::string_view line);                 // prints a line, possibly empty, and redraws the bar below it
  void write_frame();

  const ConsoleOptions options_;
  const Clock& clock_;
  std::mutex mutex_;
  std::string line_, bar_text_, frame_;  // members, so that a step allocates nothing
  int64_t steps_done_ = 0;
  bool any_step_shown_ = false;
  bool bar_drawn_ = false;
  double bar_drawn_at_ = 0;
};

}  // namespace trireme
