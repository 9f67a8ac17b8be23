// A second stream for small kernels that do not depend on a larger kernel. They overlap with it on multiprocessors that it leaves
// idle, instead of running after it.
#pragma once

#include <cuda_runtime_api.h>

namespace trireme::cuda {

class Aside {
 public:
  Aside();
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // Runs work(stream) concurrently with beside(another stream). Both run after everything already on `stream` and before
  // everything enqueued on it later.
  template <class Work, class Beside>
  void run(cudaStream_t stream, Work&& work, Beside&& beside) {
    fork(stream);
    work(stream);  // launched first, so that its blocks are scheduled first
    beside(stream_);
    join(stream);
  }

 private:
  void fork(cudaStream_t from);
  void join(cudaStream_t to);

  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr, joined_ = nullptr;
};

}  // namespace trireme::cuda
