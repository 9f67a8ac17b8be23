// Messages over TCP, for ranks that MPI did not start: one connection between every two of them.
#pragma once

#include <memory>

#include "comm/rendezvous.h"
#include "comm/transport.h"

namespace trireme {

// Returns when all ranks have come; a Failure if they do not within some minutes.
std::unique_ptr<Transport> connect_through_tcp(const Rendezvous& rendezvous);

}  // namespace trireme
