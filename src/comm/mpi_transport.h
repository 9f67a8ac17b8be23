// Messages over MPI. Only built where MPI is found.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// Initialises MPI, once in a process, and ends it when the transport goes. If the process leaves by an exception, MPI takes the
// other ranks down with it.
std::unique_ptr<Transport> connect_through_mpi();

}  // namespace trireme
