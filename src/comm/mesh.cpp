#include "comm/mesh.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "comm/cost.h"
#include "comm/host_group.h"

namespace trireme {

std::vector<int> ranks_along(const MeshShape& shape, MeshDirection direction, int rank) {
  const int sizes[] = {shape.tp, shape.cp, shape.dp, shape.pp};
  const auto which = static_cast<size_t>(direction);
  int stride = 1;  // of neighbours in this direction
  for (size_t faster = 0; faster < which; ++faster) stride *= sizes[faster];
  const int place = rank / stride % sizes[which];
  std::vector<int> ranks;
  for (int i = 0; i < sizes[which]; ++i) ranks.push_back(rank + (i - place) * stride);
  return ranks;
}

Mesh Mesh::solo() {
  const auto one = [] { return std::make_unique<SoloCommunicator>(); };
  return {.tp = one(), .cp = one(), .dp = one(), .pp = one(), .embedding = nullptr, .world = one()};
}

Mesh Mesh::of(const MeshShape& shape, World& world) {
  CHECK_EQ(shape.size(), world.size());
  if (world.size() == 1) return solo();
  const auto group = [&](const char* name, int id, std::vector<int> ranks) -> std::unique_ptr<Communicator> {
    return std::make_unique<HostGroup>(name, id, std::move(ranks), world.transport(), world.progress());
  };
  const auto along = [&](MeshDirection direction) { return ranks_along(shape, direction, world.rank()); };
  const std::vector<int> stages = along(MeshDirection::pp);
  const bool shares = stages.size() > 1 && (world.rank() == stages.front() || world.rank() == stages.back());
  std::vector<int> everybody(static_cast<size_t>(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return {.tp = group("tp", 1, along(MeshDirection::tp)),
          .cp = group("cp", 2, along(MeshDirection::cp)),
          .dp = group("dp", 3, along(MeshDirection::dp)),
          .pp = group("pp", 4, stages),
          .embedding = shares ? group("embedding", 5, {stages.front(), stages.back()}) : nullptr,
          .world = group("world", 6, everybody)};
}

Mesh Mesh::on_paper(const MeshPlace& place) {
  const auto group = [&](MeshDirection direction) -> std::unique_ptr<Communicator> {
    const std::vector<int> ranks = ranks_along(place.shape, direction, place.rank);
    const auto self = std::find(ranks.begin(), ranks.end(), place.rank);
    return std::make_unique<CostCommunicator>(static_cast<int>(self - ranks.begin()), static_cast<int>(ranks.size()));
  };
  const std::vector<int> stages = ranks_along(place.shape, MeshDirection::pp, place.rank);
  const bool shares = stages.size() > 1 && (place.rank == stages.front() || place.rank == stages.back());
  return {.tp = group(MeshDirection::tp),
          .cp = group(MeshDirection::cp),
          .dp = group(MeshDirection::dp),
          .pp = group(MeshDirection::pp),
          .embedding = shares ? std::make_unique<CostCommunicator>(place.rank == stages.front() ? 0 : 1, 2) : nullptr,
          .world = std::make_unique<CostCommunicator>(place.rank, place.shape.size())};
}

int64_t Mesh::staging_bytes() const {
  int64_t bytes = 0;
  for (const auto& group : {std::cref(tp), std::cref(cp), std::cref(dp), std::cref(pp), std::cref(embedding), std::cref(world)})
    if (group.get() != nullptr) bytes += dynamic_cast<const CostCommunicator&>(*group.get()).staging_bytes();
  return bytes;
}

}  // namespace trireme
