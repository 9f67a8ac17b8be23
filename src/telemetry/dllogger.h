// The DLLogger JSON file that NeMo users and their scripts read: one line a record, "DLLL " and a JSON object, first the
// parameters, then one line a step.
//
// Readers are known to parse every line and to expect an integer step with a step time in it. So nothing else is written: no
// metadata, and the loss of a validation stands as val_loss in the line of the step that follows it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "telemetry/log_file.h"
#include "telemetry/step_record.h"

namespace trireme {

// The resolved recipe, flat: {"cfg/optim/lr", 6e-4}, in the order in which it is to be written.
using LoggedParameters = std::vector<std::pair<std::string, nlohmann::json>>;

class DlloggerSink final : public Sink {
 public:
  // first_step is the first one that this process will make. Lines of earlier steps that the file already has are kept. Lines of
  // first_step and later are taken out, because those steps are made again from the checkpoint: each step is in the file once,
  // with the values that led to the weights there are. So a run that starts at 0 starts the file anew. A last line that was torn
  // goes too.
  DlloggerSink(const std::string& path, int64_t first_step, const LoggedParameters& parameters, Notify notify,
               const Clock& clock = system_clock());

  void step(const StepRecord& record) override;

 private:
  void begin_record();  // into line_, up to the value of "step"
  void end_record();

  const Clock& clock_;
  LogFile file_;
  Stopwatch elapsed_;
  std::string line_;  // kept, so that a step allocates nothing
};

}  // namespace trireme
