// SIGTERM, SIGINT and SIGUSR2, which mpirun passes on, ask a run to save and leave. They are noticed between steps; a second one
// ends the process at once.
#pragma once

namespace trireme {

class StopSignal {
 public:
  StopSignal();   // from now on the signals are noticed
  ~StopSignal();  // and from now on they kill again
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  int number() const;            // of the one that came; 0: none
  const char* received() const;  // its name, "SIGTERM"; null: none
};

const char* signal_name(int number);  // "SIGTERM"

}  // namespace trireme
