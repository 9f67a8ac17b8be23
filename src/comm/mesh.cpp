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

Mesh Mesh::of(const MeshPlace& place, const MakeGroup& group) {
  const MeshShape& shape = place.shape;
  const int rank = place.rank;
  const auto along = [&](MeshDirection direction) { return ranks_along(shape, direction, rank); };
  const std::vector<int> stages = along(MeshDirection::pp);
  const bool shares = stages.size() > 1 && (rank == stages.front() || rank == stages.back());
  std::vector<int> everybody(static_cast<size_t>(shape.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return {.tp = group("tp", 1, along(MeshDirection::tp)),
          .cp = group("cp", 2, along(MeshDirection::cp)),
          .dp = group("dp", 3, along(MeshDirection::dp)),
          .pp = group("pp", 4, stages),
          .dp_cp = group("dp_cp", 7, along(MeshDirection::dp_cp)),
          .embedding = shares ? group("embedding", 5, {stages.front(), stages.back()}) : nullptr,
          .world = group("world", 6, everybody)};
}

Mesh Mesh::solo() {
  return of({}, [](const char*, int, const std::vector<int>&) { return std::make_unique<SoloCommunicator>(); });
}

Mesh Mesh::of(const MeshShape& shape, World& world) {
  CHECK_EQ(shape.size(), world.size());
  if (world.size() == 1) return solo();
  return of({shape, world.rank()}, [&](const char* name, int id, std::vector<int> ranks) {
    return std::make_unique<HostGroup>(name, id, std::move(ranks), world.transport(), world.progress());
  });
}

PaperMesh PaperMesh::of(const MeshPlace& place, StepLog* log) {
  PaperMesh paper;
  paper.mesh = Mesh::of(place, [&](const char* name, int, const std::vector<int>& ranks) {
    const int self = static_cast<int>(std::find(ranks.begin(), ranks.end(), place.rank) - ranks.begin());
    auto group = std::make_unique<CostCommunicator>(name, self, static_cast<int>(ranks.size()), log);
    paper.groups.push_back(group.get());
    return group;
  });
  return paper;
}

int64_t PaperMesh::staging_bytes() const {
  int64_t bytes = 0;
  for (const CostCommunicator* group : groups) bytes += group->staging_bytes();
  return bytes;
}

}  // namespace trireme
