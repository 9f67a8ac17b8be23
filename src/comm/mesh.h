// The place of this rank in the mesh. Ranks are ordered with TP fastest, then CP, DP, PP slowest: rank = tp + TP (cp + CP (dp +
// DP pp)). One communicator per direction of the mesh, and the groups derived from them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/step_log.h"
#include "comm/group_kind.h"
#include "comm/solo.h"
#include "comm/world.h"

namespace trireme {

class CostCommunicator;

struct MeshShape {
  int tp = 1, cp = 1, dp = 1, pp = 1;
  int size() const { return tp * cp * dp * pp; }
};

struct MeshPlace {
  MeshShape shape;
  int rank = 0;
};

struct Mesh {
  std::unique_ptr<Communicator> tp, cp, dp, pp;
  std::unique_ptr<Communicator> dp_cp;      // ranks with the same parameters, whose gradients are summed
  std::unique_ptr<Communicator> embedding;  // first and last of several stages, which may share the table; null on others
  std::unique_ptr<Communicator> world;      // all ranks

  static Mesh solo();
  static Mesh of(const MeshShape& shape, World& world);  // on host memory
  // Calls `make_group` for each group that contains this rank.
  using MakeGroup = std::function<std::unique_ptr<Communicator>(GroupKind group, std::vector<int> ranks)>;
  static Mesh of(const MeshPlace& place, const MakeGroup& make_group);
  int size() const { return tp->size() * cp->size() * dp->size() * pp->size(); }
};

// A mesh of CostCommunicators, which record their calls in `log`.
struct CostMesh {
  Mesh mesh;
  std::vector<const CostCommunicator*> groups;  // those of the mesh

  static CostMesh of(const MeshPlace& place, StepLog* log = nullptr);
  int64_t staging_bytes() const;  // the staging memory that the collectives of all groups need
};

// Ranks along one direction through `rank`, in rising order. dp_cp: ranks that differ in dp or cp.
enum class MeshDirection : uint8_t { tp, cp, dp, pp, dp_cp };
std::vector<int> ranks_along(const MeshShape& shape, MeshDirection direction, int rank);

}  // namespace trireme
