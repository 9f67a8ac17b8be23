// What reaches a supervisor from outside: signals, and the end of the command that follows it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// How a supervisor is tied to the process that started it.
enum class LeashKind : uint8_t {
  none,
  follower,  // a socket to `trireme launch`: once that follows the log, its end is a request to stop
  lifeline,  // the end of this input ends the ranks: the supervisor outside of a container is gone
};

class StopRequests {
 public:
  // From now on SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 and SIGCHLD arrive here. The process has one thread.
  StopRequests(LeashKind kind, int leash);
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  void add_to(std::vector<pollfd>& waiting) const;
  void take();  // reads what has arrived

  int stops() const { return stops_; }    // requests to stop; the second one means at once
  int signal() const { return signal_; }  // of the first request
  bool take_stack_request();              // SIGUSR1 since the last call
  // A line for the terminal of the command that follows, if there is one.
  void tell(const std::string& line) const;

  // In the child after fork(): signals are as they were for this process.
  static void restore_signals();

 private:
  void request(int signal);

  LeashKind kind_;
  int leash_, signals_ = -1;
  int stops_ = 0, signal_ = 0;
  bool is_followed_ = false, wants_stacks_ = false;
};

}  // namespace trireme
