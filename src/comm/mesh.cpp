#include "comm/mesh.h"

#include <algorithm>
#include <numeric>

#include "comm/cost.h"
#include "comm/host_group.h"

namespace trireme {

std::vector<int> ranks_along(const MeshShape& shape, MeshDirection direction, int rank) {
  const int sizes[] = {shape.tp, shape.cp, shape.dp, shape.pp};
  const bool joined = direction == MeshDirection::dp_cp;
  const auto which = static_cast<size_t>(joined ? MeshDirection::cp : direction);
  const int size = joined ? shape.cp * shape.dp : sizes[which];
  int stride = 1;  // between neighbours in this direction
  for (size_t faster = 0; faster < which; ++faster) stride *= sizes[faster];
  const int place = rank / stride % size;
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(rank + (i - place) * stride);
  return ranks;
}

Mesh Mesh::of(const MeshPlace& place, const MakeGroup& make_group) {
  const MeshShape& shape = place.shape;
  const int rank = place.rank;
  const auto along = [&](MeshDirection direction) { return ranks_along(shape, direction, rank); };
  const std::vector<int> stages = along(MeshDirection::pp);
  const bool shares = stages.size() > 1 && (rank == stages.front() || rank == stages.back());
  std::vector<int> everybody(static_cast<size_t>(shape.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return {.tp = make_group(GroupKind::tp, along(MeshDirection::tp)),
          .cp = make_group(GroupKind::cp, along(MeshDirection::cp)),
          .dp = make_group(GroupKind::dp, along(MeshDirection::dp)),
          .pp = make_group(GroupKind::pp, stages),
          .dp_cp = make_group(GroupKind::dp_cp, along(MeshDirection::dp_cp)),
          .embedding = shares ? make_group(GroupKind::embedding, {stages.front(), stages.back()}) : nullptr,
          .world = make_group(GroupKind::world, everybody)};
}

Mesh Mesh::solo() {
  return of({}, [](GroupKind, const std::vector<int>&) { return std::make_unique<SoloCommunicator>(); });
}

Mesh Mesh::of(const MeshShape& shape, World& world) {
  CHECK_EQ(shape.size(), world.size());
  if (world.size() == 1) return solo();
  return of({shape, world.rank()}, [&](GroupKind group, std::vector<int> ranks) {
    return std::make_unique<HostGroup>(group, std::move(ranks), world.transport(), world.progress());
  });
}

CostMesh CostMesh::of(const MeshPlace& place, StepLog* log) {
  CostMesh cost_mesh;
  cost_mesh.mesh = Mesh::of(place, [&](GroupKind kind, const std::vector<int>& ranks) {
    const int self = static_cast<int>(std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin());
    auto group = std::make_unique<CostCommunicator>(kind, self, static_cast<int>(ranks.size()), log);
    cost_mesh.groups.push_back(group.get());
    return group;
  });
  return cost_mesh;
}

int64_t CostMesh::staging_bytes() const {
  int64_t bytes = 0;
  for (const CostCommunicator* group : groups) bytes += group->staging_bytes();
  return bytes;
}

}  // namespace trireme
