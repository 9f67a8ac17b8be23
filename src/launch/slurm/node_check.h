// trireme validate on the nodes of an allocation before a run: which of them must be left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

struct NodeCheck {
  std::vector<std::string> nodes;    // all of the allocation
  std::vector<std::string> srun;     // srun and its options, as an attempt has them
  std::string program;               // on the nodes
  std::filesystem::path run_folder;  // that the nodes must share
  std::filesystem::path folder;      // of the result and the logs
};

// srun with the options of an attempt, and after them those of the checks, which win.
std::vector<std::string> check_command(const NodeCheck& check);

struct NodeVerdict {
  struct Bad {
    std::string node, reason;
  };
  std::vector<Bad> bad;
  // Why no run should start whichever nodes are left out; empty: those that are left are good.
  std::string failure;
};

std::filesystem::path check_result_path(const std::filesystem::path& folder);
// From the result of the checks, whose host names may be longer than the names that Slurm has for the nodes. Failure if there is
// no result.
NodeVerdict read_node_check(const NodeCheck& check);

}  // namespace trireme
