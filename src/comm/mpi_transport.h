// Messages over MPI. Only built where MPI is found.
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// Initialises MPI, once per process, and finalizes it when the transport is destroyed. If the process leaves by an exception, MPI
// aborts the other ranks.
std::unique_ptr<Transport> connect_through_mpi();

}  // namespace trireme
