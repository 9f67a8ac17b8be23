// Layouts whose ranks are processes with a FakeDevice each, and communicate through nccl_group.cpp.
#pragma once

#include "comm/nccl_group.h"
#include "support/fake_device.h"
#include "support/layouts.h"
#include "support/nccl_stand_in.h"
#include "support/rank_processes.h"

namespace trireme {

using MakeOps = std::function<std::unique_ptr<Backend>()>;  // of the device

// The numbers of a run, sent from one process of this program to another.
inline std::string packed(const RankRun& run) {
  std::vector<double> numbers = {run.evaluated};
  for (const StepResult& result : run.results) numbers.push_back(result.loss), numbers.push_back(result.grad_norm);
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}
inline RankRun unpacked_run(const std::string& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  RankRun run;
  if (!numbers.empty()) run.evaluated = numbers[0];
  for (size_t i = 1; i + 1 < numbers.size(); i += 2) run.results.push_back({.loss = numbers[i], .grad_norm = numbers[i + 1]});
  return run;
}

inline void run_over_nccl(const Layout& layout, int steps, const MakeOps& make_ops, World& world, RankRun& run) {
  ::setenv("NCCL_DEBUG", "INFO", 1);  // no log file, which a process that ends without tidying up would leave behind
  FakeDevice device(static_cast<uint64_t>(world.rank()), make_ops());
  NcclSession session(device, device, world.progress());
  Mesh mesh =
      Mesh::of({layout.shape, world.rank()}, [&](GroupKind group, std::vector<int> ranks) -> std::unique_ptr<Communicator> {
        if (ranks.size() == 1) return std::make_unique<SoloCommunicator>();
        std::span<const NcclChannel> channels;
        if (group == GroupKind::pp) channels = kNcclStages;
        if (group == GroupKind::cp) channels = kNcclRing;
        return std::make_unique<NcclGroup>(group, std::move(ranks), channels, world.transport(), world.progress(), session);
      });
  run_engine(layout, steps, world.rank(), std::make_unique<TracedBackend>(device, run.executed),
             traced(std::move(mesh), run.executed), run);
}

// Every rank checks that it executed what was planned.
inline std::vector<RankRun> train_over_nccl(const Layout& layout, int steps, const MakeOps& make_ops) {
  const auto results = on_rank_processes(layout.shape.size(), [&](World& world) {
    RankRun run;
    run_over_nccl(layout, steps, make_ops, world, run);
    expect_as_planned(run);
    return packed(run);
  });
  std::vector<RankRun> runs;
  for (const std::string& result : results) runs.push_back(unpacked_run(result));
  return runs;
}

}  // namespace trireme
