// The DLLogger JSON file that NeMo users and their scripts read: one line a record, "DLLL " and a JSON object, first the
// parameters, then one line a step.
//
// Readers are known to parse every line and to expect an integer step with a step time in it. So nothing else is written: no
// metadata, and the loss of a validation stands as val_loss in the line of the last step before it, which is written again.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "telemetry/log_file.h"
#include "telemetry/step_values.h"

namespace trireme {

// The resolved recipe, flat: {"cfg/optim/lr", 6e-4}, in the order in which it is to be written.
using LoggedParameters = std::vector<std::pair<std::string, nlohmann::json>>;

struct DlloggerOptions {
  int64_t first_step = 0;  // the first one that this process will make
  StepTiming timing = StepTiming::logged;
};

class DlloggerSink final : public Sink {
 public:
  // Lines of steps before first_step that the file already has are kept. Lines of first_step and later are taken out, because
  // those steps are made again from the checkpoint: each step is in the file once, with the values that led to the weights
  // there are. A last line that was torn goes too. A run that starts at 0 begins a new file; one with steps of another run is
  // renamed.
  DlloggerSink(const std::string& path, const DlloggerOptions& options, const LoggedParameters& parameters, Notify notify,
               const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;

 private:
  void write_step(const StepRecord& record, std::optional<double> validation_loss);
  void begin_record();  // into line_, up to the value of "step"
  void end_record();

  const DlloggerOptions options_;
  const Clock& clock_;
  Notify notify_;
  LogFile file_;
  Stopwatch elapsed_;
  StepRecord last_ = {.step = -2};       // the last step, logged or not
  std::optional<int64_t> last_line_at_;  // where its line begins, if it has one
  std::string line_;                     // kept, so that a step allocates nothing
};

// The same values as DLLogger prints them to a terminal, a line a step: "DLL 2024-09-28 01:21:33.241469 - 47 lr : 3.6e-05 ...".
class DlloggerStdout final : public Sink {
 public:
  explicit DlloggerStdout(StepTiming timing, std::FILE* stream = stdout, const Clock& clock = system_clock())
      : timing_(timing), stream_(stream), clock_(clock) {}

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;

 private:
  void begin_line(int64_t step);
  void end_line();

  StepTiming timing_;
  std::FILE* stream_;
  const Clock& clock_;
  std::string line_;
};

}  // namespace trireme
