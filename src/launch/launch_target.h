// Where jobs run: this machine, Slurm, Kubernetes. One interface, so that --dry-run, --status, --logs and --stop are the same for
// all three.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/job.h"
#include "launch/launch_options.h"

namespace trireme {

struct LaunchChoice {
  std::string what, why;  // "--mpi=none", "the site has no PMIx, so ranks meet over TCP"
};

struct SubmissionFile {
  std::filesystem::path path;
  std::string text;
  bool is_executable = false;
};

// Everything that submit() will do, and nothing else: --dry-run prints it.
struct Submission {
  std::vector<SubmissionFile> files;               // written before the commands run
  std::vector<std::vector<std::string>> commands;  // one per job; $JOB_name stands for the id of an earlier job
  std::vector<LaunchChoice> choices;
};

// A submitted job, as launch.json keeps it.
struct JobRecord {
  std::string name;
  JobStage stage = JobStage::training;
  std::string id;  // the target's: process and start time, Slurm job, Helm release
  std::filesystem::path folder, run_folder;
};

enum class JobPhase : uint8_t { waiting, running, done, failed, stopped, unknown };
std::string name_of(JobPhase phase);

struct JobStatus {
  JobPhase phase = JobPhase::unknown;
  std::string detail;  // one line: "12 s in the queue: Resources", "rank 3 died; attempt 2"
  std::optional<int> exit_status;
};

struct LogRequest {
  std::optional<int64_t> rank;  // nothing: the merged log
  bool follow = false;          // until the job ends
};

class LaunchTarget {
 public:
  virtual ~LaunchTarget() = default;
  // Looks at the site and decides how these jobs run. UserError if the site cannot run them. Changes nothing.
  virtual Submission prepare(const std::vector<Job>& jobs) = 0;
  // UserError if the jobs cannot be submitted from here, or a name is taken. Called after prepare(), before anything is written;
  // --dry-run and --no-submit do without.
  virtual void require_ready(const std::vector<Job>&) {}
  // Writes the files and starts the jobs. If one cannot be started, those before it are stopped again.
  virtual std::vector<JobRecord> submit(const std::vector<Job>& jobs, const Submission& submission) = 0;
  virtual JobStatus status(const JobRecord& job) = 0;
  // Stops the job and removes everything that submit() made outside of its folder. Done already: nothing.
  virtual void stop(const JobRecord& job) = 0;
  // Prints the log to stdout. The default reads log_file().
  virtual void show_log(const JobRecord& job, const LogRequest& request);
  // The log of a rank, or the merged one: by default folder/rank-00003.log and folder/log.txt.
  virtual std::filesystem::path log_file(const JobRecord& job, std::optional<int64_t> rank);
  // Copies files of a launch whose path below its folder matches `glob` to `to`; returns how many. The default copies from the
  // folder itself, which local and Slurm launches share with this machine.
  virtual int64_t fetch_files(const std::filesystem::path& folder, const std::string& glob, const std::filesystem::path& to);
};

std::unique_ptr<LaunchTarget> make_local_target(const LaunchOptions& options);
std::unique_ptr<LaunchTarget> make_slurm_target(const LaunchOptions& options);
std::unique_ptr<LaunchTarget> make_kubernetes_target(const LaunchOptions& options);

}  // namespace trireme
