// Repeated work as CUDA graphs. The second run captures the graph; later runs launch it as a whole. A launch takes the host
// microseconds and leaves smaller gaps between kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>

#include "backend/work_key.h"

namespace trireme::cuda {

// Captures what `enqueue` enqueues on the stream, without running it. The caller launches and destroys the graph.
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
    bool seen = false;  // the first run loads kernels and tunes GEMMs, which cannot be captured
    cudaGraphExec_t graph = nullptr;
  };
  std::map<WorkKey, Replay> replays_;
};

}  // namespace trireme::cuda
