// NVIDIA's diagnostics of a node: dcgmi diag, and what its JSON says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr int kMostDcgmLevel = 3;
double dcgm_seconds(int level);  // about, as its documentation says

struct DcgmFault {
  std::string test, device, message;  // "Memory", "GPU 2", ""
};

// Every test result with the status Fail. The formats of DCGM 2 to 4 are read. Failure if the text is not such a result.
std::vector<DcgmFault> dcgm_faults(std::string_view json);

struct DcgmResult {
  bool is_there = false;  // dcgmi is installed
  std::vector<DcgmFault> faults;
};
// Runs it on this node. Failure if dcgmi fails without a result.
DcgmResult run_dcgm(int level);

}  // namespace trireme
