// Runs a rank under nsys, as the users of the reference systems do, if it is one of those chosen by model.nsys_profile.ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

struct ProfileRank {
  std::vector<int64_t> ranks;
  std::filesystem::path folder;     // of the reports
  std::string trace = "cuda,nvtx";  // what nsys records
  std::vector<std::string> command;
};

// The command of this rank: as it is, or behind `nsys profile` with a report of its own.
std::vector<std::string> profiled_command(const ProfileRank& profile, int64_t rank);

// Becomes that command. Returns an exit status only if it cannot be started.
int exec_profiled(const ProfileRank& profile);

}  // namespace trireme
