// SIGTERM and SIGINT ask a run to save and leave. They are noticed between steps; a second one ends the process at once.
#pragma once

namespace trireme {

class StopSignal {
 public:
  StopSignal();   // from now on the signals are noticed
  ~StopSignal();  // and from now on they kill again
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  const char* received() const;  // "SIGTERM", "SIGINT", or null
};

}  // namespace trireme
