// The facts of every node, each read by its first rank: its inventory, its clock against the first node's, and DCGM.
#pragma once

#include "comm/control.h"
#include "validate/inventory.h"

namespace trireme {

struct SurveyRequest {
  bool is_first = false;  // of the ranks of its node
  int dcgm_level = 0;     // 0: without DCGM
};

// All ranks call it together. On rank 0 the facts by rank, empty for those that are not the first of their node. The fact "dcgm"
// says what DCGM did, "dcgm_failed" what it found.
std::vector<Facts> survey_nodes(Control& control, const SurveyRequest& request);

}  // namespace trireme
