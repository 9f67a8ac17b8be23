// A real Slurm cluster for tests, and launches on it through the command line.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {

class SlurmCluster {
 public:
  // Why there can be none; empty if there can.
  static std::string missing() {
    if (::geteuid() != 0) return "starting slurmd needs root";
    for (const char* program : {"slurmctld", "slurmd", "munged", "srun", "unshare"})
      if (run_shell(fmt::format("PATH=$PATH:/usr/sbin command -v {}", program)).status != 0)
        return fmt::format("{} is not installed (packages slurm-wlm and munge)", program);
    return run_shell("unshare --uts --mount true").status == 0 ? "" : "this machine gives no namespaces";
  }

  // `plugin`: the path of a plugin of srun's.
  explicit SlurmCluster(int nodes, const std::string& plugin = "") : plugin_(plugin) {
    const ProgramResult up = script("up", fmt::format("{} SlurmdTimeout=10", nodes));
    if (up.status != 0) throw std::runtime_error(up.output);
  }
  ~SlurmCluster() { script("down", ""); }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  void fail(const std::string& nodes) const { script("fail", nodes); }

  bool limit_shm(const std::string& node, const std::string& size) const { return script("shm", node + " " + size).status == 0; }

  const std::filesystem::path& work() const { return work_.path(); }
  const TemporaryFolder& folder() const { return work_; }

  // In the folder where launches are made, as a user of the cluster.
  ProgramResult run(const std::string& command) const {
    return run_shell(fmt::format("cd {} && . {}/cluster/environment && export TRIREME_RECIPES={}/recipes && {}",
                                 work_.path().string(), folder_.path().string(), TRIREME_SOURCE_DIR, command));
  }
  ProgramResult trireme(const std::string& arguments) const { return run(fmt::format("{} {}", TRIREME_BINARY, arguments)); }

 private:
  ProgramResult script(const char* command, const std::string& words) const {
    return run_shell(fmt::format("PLUGIN={} {}/tests/support/slurm_cluster.sh {} {}/cluster {} < /dev/null", plugin_,
                                 TRIREME_SOURCE_DIR, command, folder_.path().string(), words));
  }

  std::string plugin_;
  TemporaryFolder folder_, work_;
};

}  // namespace trireme
