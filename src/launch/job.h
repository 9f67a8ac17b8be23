// A job: what a target starts. Each stage of each run of a launch is one job, on every target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

enum class JobStage : uint8_t { data_preparation, training, conversion, evaluation, validation };
std::string name_of(JobStage stage);  // "data_preparation"
// Whether a stage runs as ranks that work together.
inline bool has_ranks(JobStage stage) {
  return stage == JobStage::training || stage == JobStage::evaluation || stage == JobStage::validation;
}

struct EnvironmentVariable {
  std::string name, value;
  bool operator==(const EnvironmentVariable&) const = default;
};

struct Mount {
  std::string source, destination;
  bool operator==(const Mount&) const = default;
};

struct Container {
  std::string runtime;  // docker, podman, ctr or enroot on one machine; pyxis on Slurm; the cluster's own on Kubernetes: empty
  std::string image;
  std::vector<Mount> mounts;  // recipe, data and results folders among them
};

struct Job {
  std::string name;  // of the launch and, if it has several jobs, stage or sweep point: "gpt3-175b16", "gpt3-175b16-data"
  JobStage stage = JobStage::training;
  std::vector<std::string> command;  // argv of every rank: trireme train gpt3/175b ... exp_manager.explicit_log_dir=...
  std::vector<std::vector<std::string>> tasks;  // not empty: an array; task i runs the command with these words appended
  int64_t tasks_at_once = 0;                    // of the array; 0: all
  int64_t nodes = 1, ranks_per_node = 1;
  bool has_gpus = false;      // one GPU per rank
  bool checks_nodes = false;  // of Slurm: trireme validate runs first on all nodes of the allocation
  std::vector<EnvironmentVariable> environment;
  std::optional<Container> container;
  std::filesystem::path folder;      // RESULTS/NAME, absolute: script, logs and state of the job
  std::filesystem::path recipe;      // the resolved recipe that the command names; empty: one shipped with the program
  std::string recipe_text;           // of that file
  std::filesystem::path run_folder;  // of a training: its exp_manager.explicit_log_dir; progress is its newest checkpoint
  std::vector<std::string> after;    // names of jobs of the same launch that must have succeeded
};

// The step of the newest complete checkpoint of a run folder; -1 if it has none. This is what counts as progress.
int64_t newest_step(const std::filesystem::path& run_folder);

}  // namespace trireme
