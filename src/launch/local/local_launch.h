// local.json in the folder of a launch: what its supervisor starts. `trireme launch local` decides everything and writes it here;
// the supervisor only reads it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/job.h"

namespace trireme {

struct RankBinding {
  std::vector<int> cpus;   // the system's numbers; empty: any
  std::vector<int> nodes;  // NUMA nodes whose memory is preferred; empty: any
  bool operator==(const RankBinding&) const = default;
};

enum class RankStarter : uint8_t { itself, mpirun, container };
std::string name_of(RankStarter starter);

struct LocalJob {
  std::string name;
  JobStage stage = JobStage::training;
  RankStarter starter = RankStarter::itself;
  bool may_use_mpirun = false;                  // several ranks on CPUs: in a container, mpirun starts them if the image has one
  std::vector<std::string> command;             // argv of every rank
  std::vector<std::vector<std::string>> tasks;  // as in Job
  int64_t tasks_at_once = 1;
  int64_t ranks = 1;       // on this machine
  int64_t first_rank = 0;  // the rank of local rank 0
  int64_t world = 1;       // ranks on all machines
  std::vector<EnvironmentVariable> environment;
  std::vector<RankBinding> bindings;           // by local rank; empty: none is bound
  std::vector<std::string> container;          // starts a container; the command in it follows. Empty: none
  std::vector<std::string> container_removal;  // ends one that its runtime left behind
  std::filesystem::path folder;                // of its logs and state
  std::filesystem::path run_folder;            // whose newest checkpoint is its progress
  std::vector<std::string> resume;             // words that make the command continue from its newest checkpoint
  bool resumes_at_once = false;                // also in the first attempt
  std::vector<std::string> after;
};

struct LocalLaunch {
  int64_t max_restarts = 3;
  std::vector<LocalJob> jobs;
};

std::string write_local_launch(const LocalLaunch& launch);
LocalLaunch read_local_launch(const std::filesystem::path& file);  // UserError if it is not one

}  // namespace trireme
