// Ranks as threads of one process, joined by a transport.
#pragma once

#include <thread>
#include <vector>

#include "comm/local_transport.h"
#include "comm/progress.h"

namespace trireme {

// Calls work(rank, all ranks, its transport, its progress) on as many threads; completions come late.
template <class Work>
void on_rank_threads(int ranks, const Work& work) {
  auto transports = LocalTransport::connect(ranks);
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Progress progress(
          {.timeout = std::chrono::seconds(60), .hostility = Hostility::late_completion, .seed = static_cast<uint64_t>(rank)});
      work(rank, members, *transports[static_cast<size_t>(rank)], progress);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace trireme
