// Messages over MPI, which libtrireme_mpi.so loads (mpi_calls.h).
#pragma once

#include <memory>

#include "comm/transport.h"

namespace trireme {

// Initialises MPI, once per process, and finalizes it when the transport is destroyed. If the process leaves by an exception, MPI
// aborts the other ranks. Throws a UserError where there is no MPI to load.
std::unique_ptr<Transport> connect_through_mpi();

}  // namespace trireme
