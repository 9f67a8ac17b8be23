// Work that comes again and again, as CUDA graphs: the second time it is recorded, from then on the whole of it is launched at
// once, which takes the host microseconds and leaves smaller gaps between kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>

#include "backend/work_key.h"

namespace trireme::cuda {

// What `enqueue` enqueues on the stream, ready to be launched; nothing of it is done yet.
cudaGraphExec_t record_graph(cudaStream_t stream, const std::function<void()>& enqueue);

class Replays {
 public:
  Replays() = default;
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  void run(const WorkKey& key, cudaStream_t stream, const std::function<void()>& enqueue);

 private:
  struct Replay {
    bool seen = false;  // libraries load kernels and plans are tuned the first time, which cannot be recorded
    cudaGraphExec_t graph = nullptr;
  };
  std::map<WorkKey, Replay> replays_;
};

}  // namespace trireme::cuda
