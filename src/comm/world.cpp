#include "comm/world.h"

#include <cstdlib>

#include "base/error.h"
#include "comm/mpi_transport.h"

namespace trireme {
namespace {

// What mpirun (Open MPI, MPICH) and srun (PMIx, PMI2) set for each process they start.
bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

}  // namespace

World::World(std::unique_ptr<Transport> transport, Progress::Options options)
    : transport_(std::move(transport)), progress_(std::make_unique<Progress>(options)) {}

World World::find() {
  if (!started_by_mpi()) return {};
#ifdef TRIREME_MPI
  return World(connect_through_mpi());
#else
  throw UserError(
      "this trireme was built without MPI and cannot join the others that mpirun started; install libopenmpi-dev and build "
      "again");
#endif
}

}  // namespace trireme
