// Messages over TCP, for ranks that MPI did not start. Every two ranks have one connection.
#pragma once

#include <memory>

#include "comm/control.h"
#include "comm/transport.h"

namespace trireme {

// Connects ranks that have met and know each other's addresses; `listener` is where this rank listens. Returns when every two
// ranks are connected. Throws JobEnded if the job ends before, a Failure after the time limit.
struct DataConnections {
  int rank = 0;
  std::vector<Greeting> ranks;  // the greetings of the meeting
  std::string secret;           // of the company
  std::chrono::seconds limit{600};
};
std::unique_ptr<Transport> connect_through_tcp(const DataConnections& request, TcpListener listener, const Control& control);

}  // namespace trireme
