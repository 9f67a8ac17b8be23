#include "backend/cuda/aside.h"

#include "backend/cuda/check.h"

namespace trireme::cuda {

Aside::Aside() {
  int lowest = 0, highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, lowest));
  for (cudaEvent_t* event : {&forked_, &joined_}) CUDA_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

Aside::~Aside() {
  cudaEventDestroy(forked_);
  cudaEventDestroy(joined_);
  cudaStreamDestroy(stream_);
}

void Aside::fork(cudaStream_t from) {
  CUDA_CHECK(cudaEventRecord(forked_, from));
  CUDA_CHECK(cudaStreamWaitEvent(stream_, forked_, 0));
}

void Aside::join(cudaStream_t to) {
  CUDA_CHECK(cudaEventRecord(joined_, stream_));
  CUDA_CHECK(cudaStreamWaitEvent(to, joined_, 0));
}

}  // namespace trireme::cuda
