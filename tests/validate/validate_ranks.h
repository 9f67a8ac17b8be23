// Ranks as threads, each with a world of its own, as trireme validate has it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "comm/control.h"
#include "comm/local_transport.h"
#include "comm/mesh.h"
#include "comm/world.h"

namespace trireme {

// Calls work(world, unique_ptr to the group of all ranks) on every rank; the world ends with the last of them.
template <class Work>
void on_validate_ranks(int ranks, const Work& work) {
  auto transports = LocalTransport::connect(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      World world(std::move(transports[static_cast<size_t>(rank)]), {.timeout = std::chrono::seconds(60)});
      try {
        world.connect_control(LastResort::none);
        Mesh mesh = Mesh::of(MeshShape{.tp = ranks}, world);
        work(world, std::move(mesh.world));
        world.control().first_of("end", "");
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "rank " << rank << ": " << failure.what();
        world.control().settle({.status = 1, .line = failure.what()}, true);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace trireme
