// libtrireme_mpi.so. It uses neither exceptions nor the C++ library.
#include <mpi.h>

#include <cstring>

#include "comm/mpi_calls.h"

namespace trireme {
namespace {

using Request = MpiCalls::Request;
constexpr size_t kRequestBytes = sizeof(MPI_Request);
static_assert(kRequestBytes <= sizeof(Request));

MPI_Comm communicator = MPI_COMM_NULL;

Request packed(MPI_Request request) {
  Request out = 0;
  std::memcpy(&out, &request, kRequestBytes);
  return out;
}

MPI_Request unpacked(Request request) {
  MPI_Request out;
  std::memcpy(&out, &request, kRequestBytes);
  return out;
}

int start(int* rank, int* size, const char** call) {
  int given = MPI_THREAD_SINGLE;
  *call = "MPI_Init_thread";
  if (const int status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given); status != MPI_SUCCESS) return status;
  *call = "this MPI cannot be called from a second thread";
  if (given < MPI_THREAD_SERIALIZED) return MPI_ERR_UNSUPPORTED_OPERATION;
  *call = "MPI_Comm_dup";
  if (const int status = MPI_Comm_dup(MPI_COMM_WORLD, &communicator); status != MPI_SUCCESS) return status;
  *call = "MPI_Comm_set_errhandler";
  if (const int status = MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN); status != MPI_SUCCESS) return status;
  *call = "MPI_Comm_rank";
  if (const int status = MPI_Comm_rank(communicator, rank); status != MPI_SUCCESS) return status;
  *call = "MPI_Comm_size";
  return MPI_Comm_size(communicator, size);
}

int send(const void* bytes, int count, int to, int tag, Request* request) {
  MPI_Request made;
  const int status = MPI_Isend(bytes, count, MPI_BYTE, to, tag, communicator, &made);
  if (status == MPI_SUCCESS) *request = packed(made);
  return status;
}

int receive(void* bytes, int count, int from, int tag, Request* request) {
  MPI_Request made;
  const int status = MPI_Irecv(bytes, count, MPI_BYTE, from, tag, communicator, &made);
  if (status == MPI_SUCCESS) *request = packed(made);
  return status;
}

int test(Request* request, int* is_done) {
  MPI_Request made = unpacked(*request);
  const int status = MPI_Test(&made, is_done, MPI_STATUS_IGNORE);
  *request = packed(made);
  return status;
}

void error_text(int status, char* text, size_t size) {
  char all[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, all, &length);
  std::strncpy(text, all, size - 1);
  text[size - 1] = '\0';
}

void abort_job() { MPI_Abort(MPI_COMM_WORLD, 1); }
void finish() { MPI_Finalize(); }

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) const trireme::MpiCalls trireme_mpi_calls_1;
const trireme::MpiCalls trireme_mpi_calls_1 = {.start = trireme::start,
                                               .send = trireme::send,
                                               .receive = trireme::receive,
                                               .test = trireme::test,
                                               .error_text = trireme::error_text,
                                               .abort = trireme::abort_job,
                                               .finish = trireme::finish};
