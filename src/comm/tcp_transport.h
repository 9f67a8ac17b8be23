// Messages over TCP, for ranks that MPI did not start: one connection between every two of them.
#pragma once

#include <memory>

#include "comm/control.h"
#include "comm/transport.h"

namespace trireme {

// Among ranks that have met and said where each waits; `door` is where this one does. Returns when every two ranks are connected.
// Throws JobEnded if the job ends before, a Failure if that takes longer than the limit.
struct DataConnections {
  int rank = 0;
  std::vector<Greeting> ranks;  // as they met
  std::string secret;           // of this company
  std::chrono::seconds limit{600};
};
std::unique_ptr<Transport> connect_through_tcp(const DataConnections& request, TcpListener listener, const Control& control);

}  // namespace trireme
