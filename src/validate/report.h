// What a validation found, on rank 0: as lines, as JSON and as one page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "comm/probe/collective_test.h"
#include "validate/device_probe.h"
#include "validate/expectation.h"
#include "validate/finding.h"
#include "validate/fleet.h"
#include "validate/inventory_checks.h"
#include "validate/pair_rounds.h"

namespace trireme {

struct RankResult {
  int rank = 0;
  std::string node, device;
  DeviceErrors errors;
  DeviceRates rates;
  bool is_slow = false;
};

struct NodeResult {
  NodeFacts inventory;
  std::vector<int> ranks;
};

struct ValidationReport {
  std::string when, command;
  double seconds = 0;
  std::vector<NodeResult> nodes;
  std::vector<RankResult> ranks;           // empty: not measured
  std::vector<CollectiveRow> collectives;  // empty: not run
  std::vector<std::string> units;          // what the numbers of `pairs` stand for: nodes, or "rank 3" on one node
  std::vector<PairRate> pairs;
  double pair_reference = 0;
  Expectation expected;
  std::vector<Finding> findings;
  std::vector<std::string> notes;  // what was left out, and why

  bool is_good() const;
  std::vector<std::string> bad_nodes() const;  // named by a failure, without the ends of slow links
};

// Nodes to leave out so that what is left is good: the bad ones, and one end of each bad link. Their names, and what leaves them
// out of a launch.
struct LeaveOut {
  std::vector<std::string> nodes;
  std::string slurm, mpirun, kubernetes;  // "--exclude=h3", "--host h1:2,h2:2", a nodeAffinity expression
};
LeaveOut leave_out(const ValidationReport& report);

std::string text_of(const ValidationReport& report);  // without the collectives, whose lines are printed as they come
nlohmann::ordered_json json_of(const ValidationReport& report);
std::string page_of(const ValidationReport& report);

inline constexpr const char* kLinkSeparator = " - ";  // between the ends in Finding::node of a link

}  // namespace trireme
