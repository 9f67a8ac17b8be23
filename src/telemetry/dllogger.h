// The DLLogger JSON file that NeMo users and their scripts read: one record per line, "DLLL " and a JSON object. The parameters
// are first, then one line per step.
//
// Some readers parse every line and expect an integer step with a step time. So nothing else is written: no metadata, and a
// validation loss is added as val_loss to the line of the last step before it, which is rewritten.
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

// The resolved recipe, flattened, in the order of output: {"cfg/optim/lr", 6e-4}.
using LoggedParameters = std::vector<std::pair<std::string, nlohmann::json>>;

struct DlloggerOptions {
  int64_t first_step = 0;  // the first step that this process runs
  StepTiming timing = StepTiming::logged;
};

class DlloggerSink final : public Sink {
 public:
  // Keeps the file's lines of steps before first_step. Removes later lines, because those steps run again from the checkpoint, so
  // that each step is in the file once with the values that led to the current weights. Also removes a torn last line. A run that
  // starts at step 0 starts a new file and renames the file of another run.
  DlloggerSink(const std::string& path, const DlloggerOptions& options, const LoggedParameters& parameters, Notify notify,
               const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;

 private:
  void write_step(const StepRecord& record, std::optional<double> validation_loss);
  void begin_record();  // writes line_ up to the value of "step"
  void end_record();

  const DlloggerOptions options_;
  const Clock& clock_;
  Notify notify_;
  LogFile file_;
  Stopwatch elapsed_;
  StepRecord last_ = {.step = -2};       // the last step, logged or not
  std::optional<int64_t> last_line_at_;  // offset of its line, if it has one
  std::string line_;                     // member, so that a step allocates nothing
};

// The same values as DLLogger prints them on a terminal, one line per step: "DLL 2024-09-28 01:21:33.241469 - 47 lr : 3.6e-05
// ...".
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
