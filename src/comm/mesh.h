// Where this rank stands: one communicator per direction of the mesh. Ranks are ordered with TP fastest, then CP, DP, PP slowest.
#pragma once

#include <memory>

#include "comm/solo.h"

namespace trireme {

struct Mesh {
  std::unique_ptr<Communicator> tp, cp, dp, pp;

  static Mesh solo() {
    const auto one = [] { return std::make_unique<SoloCommunicator>(); };
    return {.tp = one(), .cp = one(), .dp = one(), .pp = one()};
  }
  int size() const { return tp->size() * cp->size() * dp->size() * pp->size(); }
};

}  // namespace trireme
