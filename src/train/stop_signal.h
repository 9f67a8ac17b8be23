// SIGTERM, SIGINT, SIGHUP and SIGUSR2 ask a run to save and leave. They are noticed between steps; a second one ends the process
// at once. A SIGHUP that was ignored when the process started, as nohup does it, stays ignored.
#pragma once

namespace trireme {

class StopSignal {
 public:
  // As long as there is nothing to save, a signal ends the process at once with this status.
  struct LeaveAtOnce {
    int status = 0;
    bool speaks = true;  // whether this process prints the reason
  };

  StopSignal();                            // from now on the signals are noticed
  explicit StopSignal(LeaveAtOnce early);  // until notice() is called they end the process
  ~StopSignal();                           // and from now on they kill again
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void notice();                 // from now on the signals are noticed
  int number() const;            // of the one that came; 0: none
  const char* received() const;  // its name, "SIGTERM"; null: none
};

const char* signal_name(int number);  // "SIGTERM"

// After a SIGHUP the terminal, or the program that read from a pipe, may be gone. What would be written to stdout and stderr is
// then dropped, so that it cannot fail.
void drop_output_nobody_reads();

}  // namespace trireme
