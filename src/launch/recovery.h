// How a supervisor brings a run back after a failure: the rungs it climbed, with the seconds since the failure was noticed.
//   recovered on this machine in 1.92 s: the ranks had left after 0.31 s, were started again after 0.35 s, first step after 1.92
//   s
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace trireme {

class Recovery {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static Time now() { return std::chrono::steady_clock::now(); }

  void notice(Time at);                    // the first sign that an attempt fails; further ones do not count
  void signal(int number, Time at);        // to ranks that have not left by themselves
  void leave(Time at);                     // no rank of the attempt is left
  void restart(std::string how, Time at);  // "on this machine"
  // The next attempt has done its first step. Returns the line for the log, empty if nothing had failed, and begins anew.
  std::string first_step(Time at);

 private:
  struct Climbed {
    std::optional<Time> noticed, signalled, left, restarted;
    int signal = 0;
    int restarts = 0;  // of attempts that failed before their first step, and the last one
    std::string how;
  };
  Climbed climbed_;
};

}  // namespace trireme
