// A second stream, for small kernels that need nothing of what is launched with them: they run on the multiprocessors that it
// leaves idle, instead of after it.
#pragma once

#include <cuda_runtime_api.h>

namespace trireme::cuda {

class Aside {
 public:
  Aside();
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // work(stream) and beside(another stream), both after what `stream` has so far and before what follows there.
  template <class Work, class Beside>
  void run(cudaStream_t stream, Work&& work, Beside&& beside) {
    fork(stream);
    work(stream);  // first, so that its blocks are placed first
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
