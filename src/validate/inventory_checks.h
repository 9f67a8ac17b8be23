// The facts of all nodes against each other and against what a run needs.
#pragma once

#include <vector>

#include "validate/finding.h"
#include "validate/inventory.h"

namespace trireme {

struct NodeFacts {
  std::string node;
  Facts facts;
};

std::vector<Finding> check_inventory(const std::vector<NodeFacts>& nodes);

}  // namespace trireme
