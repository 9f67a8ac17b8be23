// What the program needs of MPI. These are plain C functions of libtrireme_mpi.so, the only part that is linked with an MPI: the
// program loads it when mpirun or srun started it. No exception and no C++ object passes between the two, so that each may have a
// C++ library of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme {

struct MpiCalls {
  using Request = uint64_t;  // holds an MPI_Request of any MPI

  // Each returns 0, or a status for error_text. `call` of the latter is the name of the function of MPI that failed.
  int (*start)(int* rank, int* size, const char** call);
  int (*send)(const void* bytes, int count, int to, int tag, Request* request);
  int (*receive)(void* bytes, int count, int from, int tag, Request* request);
  int (*test)(Request* request, int* is_done);
  void (*error_text)(int status, char* text, size_t size);
  void (*abort)();
  void (*finish)();
};

constexpr const char* kMpiModule = "libtrireme_mpi.so";

// Changes with MpiCalls, so that a module of another version is not found.
constexpr const char* kMpiCallsName = "trireme_mpi_calls_1";

}  // namespace trireme
