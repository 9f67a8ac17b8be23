#include "launch/profile_rank.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "comm/world.h"

namespace trireme {

std::vector<std::string> profiled_command(const ProfileRank& profile, int64_t rank) {
  if (std::ranges::find(profile.ranks, rank) == profile.ranks.end()) return profile.command;
  std::vector<std::string> words = {"nsys",
                                    "profile",
                                    "--sample=process-tree",
                                    "--cpuctxsw=process-tree",
                                    "--event-sample=system-wide",
                                    "--backtrace=lbr",
                                    "--event-sampling-interval=3",
                                    "--samples-per-backtrace=1",
                                    "--nic-metrics=true",
                                    "--capture-range=cudaProfilerApi",
                                    "--capture-range-end=stop",
                                    "--stop-on-exit=true",
                                    fmt::format("--trace={}", profile.trace),
                                    "--inherit-environment=true",
                                    "--force-overwrite=true",
                                    fmt::format("--output={}", (profile.folder / fmt::format("rank-{:05}", rank)).string())};
  words.insert(words.end(), profile.command.begin(), profile.command.end());
  return words;
}

int exec_profiled(const ProfileRank& profile) {
  const std::vector<std::string> words = profiled_command(profile, rank_in_environment());
  if (words.front() == "nsys") {
    if (find_program("nsys").empty()) throw UserError("nsys is not on PATH; install it or set model.nsys_profile.enabled=false");
    create_folders(profile.folder);
  }
  become_program(words);
}

}  // namespace trireme
