// Where this rank stands. Ranks are ordered with TP fastest, then CP, DP, PP slowest: rank = tp + TP (cp + CP (dp + DP pp)). One
// communicator per direction of the mesh, and the groups derived from them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/step_log.h"
#include "comm/solo.h"
#include "comm/world.h"

namespace trireme {

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
  std::unique_ptr<Communicator> dp_cp;      // ranks with the same parameters: their gradients are summed
  std::unique_ptr<Communicator> embedding;  // first and last stage, which may share a table; null on other stages and with one
  std::unique_ptr<Communicator> world;      // all ranks

  static Mesh solo();
  static Mesh of(const MeshShape& shape, World& world);  // on host memory
  // Of groups that the caller makes, for all that this rank is in; `id` is different for each of them.
  using MakeGroup = std::function<std::unique_ptr<Communicator>(const char* name, int id, std::vector<int> ranks)>;
  static Mesh of(const MeshPlace& place, const MakeGroup& make_group);
  // Of CostCommunicators, which write down what they are asked for in `log`.
  static Mesh on_paper(const MeshPlace& place, StepLog* log = nullptr);

  int64_t staging_bytes() const;  // of a mesh on paper: what its collectives needed
  int size() const { return tp->size() * cp->size() * dp->size() * pp->size(); }
};

// Ranks along one direction through `rank`, in rising order. dp_cp: those that differ in either.
enum class MeshDirection : uint8_t { tp, cp, dp, pp, dp_cp };
std::vector<int> ranks_along(const MeshShape& shape, MeshDirection direction, int rank);

}  // namespace trireme
