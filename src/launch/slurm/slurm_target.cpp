// Slurm: one sbatch file per job, followed through squeue and what jobs leave in their folders.
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "launch/attempt_log.h"
#include "launch/launch_target.h"
#include "launch/slurm/batch_script.h"
#include "launch/slurm/job_queue.h"
#include "launch/slurm/site_choice.h"
#include "launch/slurm/slurm_command.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// The name of an environment variable for the id of a job, in commands that are printed before there is one.
std::string id_placeholder(const std::string& job) { return "$JOB_" + job; }

std::string with_ids(std::string word, const std::vector<JobRecord>& earlier) {
  // Longer names first: one may begin another.
  std::vector<const JobRecord*> jobs;
  for (const JobRecord& job : earlier) jobs.push_back(&job);
  std::ranges::sort(jobs, std::greater{}, [](const JobRecord* job) { return job->name.size(); });
  for (const JobRecord* job : jobs)
    for (size_t at; (at = word.find(id_placeholder(job->name))) != std::string::npos;)
      word.replace(at, id_placeholder(job->name).size(), job->id);
  return word;
}

class SlurmTarget : public LaunchTarget {
 public:
  explicit SlurmTarget(const LaunchOptions& options) : options_(options) {}

  Submission prepare(const std::vector<Job>& jobs) override {
    site_ = look_at_site();
    const std::string program = fs::read_symlink("/proc/self/exe").string();
    Submission submission;
    for (const Job& job : jobs) {
      const SlurmRun run = choose_run(site_, options_, job);
      for (const LaunchChoice& choice : run.choices)
        if (std::ranges::find(submission.choices, choice.what, &LaunchChoice::what) == submission.choices.end())
          submission.choices.push_back(choice);
      submission.files.push_back({batch_script_path(job), batch_script(job, options_, run, program), true});
      submission.commands.push_back(command_of(job));
    }
    return submission;
  }

  void require_ready(const std::vector<Job>&) override {
    if (!site_.unknown.empty()) throw UserError("{}; --no-submit writes the files without it", site_.unknown);
  }

  std::vector<JobRecord> submit(const std::vector<Job>& jobs, const Submission& submission) override {
    std::vector<JobRecord> records;
    try {
      for (const SubmissionFile& file : submission.files) {
        create_folders(file.path.parent_path());
        atomic_write(file.path, bytes_of(file.text));
        fs::permissions(file.path, fs::perms::owner_exec | fs::perms::group_exec, fs::perm_options::add);
      }
      for (size_t i = 0; i < jobs.size(); ++i) records.push_back(submit_one(jobs[i], submission.commands[i], records));
    } catch (...) {
      for (const JobRecord& record : records) stop(record);
      throw;
    }
    return records;
  }

  JobStatus status(const JobRecord& job) override { return queue_.status(job); }

  void stop(const JobRecord& job) override {
    const CommandOutput result = run_slurm({"scancel", job.id});
    if (result.status != 0 && result.errors.find("Invalid job id") == std::string::npos)
      throw Failure("{} ({}) cannot be stopped: {}", job.name, job.id, complaint_of(result));
    queue_.forget(job.id);
  }

  fs::path log_file(const JobRecord& job, std::optional<int64_t> rank) override {
    const fs::path folder = slurm_folder(job.stage, job.folder);
    if (!rank) return folder / "log.txt";
    if (queue_.tasks_of(job) > 0) return folder / fmt::format("task-{:05}.log", *rank);
    return folder / fmt::format("rank-{:05}.log", *rank);
  }

 private:
  std::vector<std::string> command_of(const Job& job) const {
    std::vector<std::string> words = {"sbatch", "--parsable"};
    if (!job.after.empty()) {
      std::vector<std::string> conditions;
      for (const std::string& name : job.after) conditions.push_back("afterok:" + id_placeholder(name));
      if (!options_.dependency.empty()) conditions.push_back(options_.dependency);
      words.push_back(fmt::format("--dependency={}", fmt::join(conditions, ",")));
      words.emplace_back("--kill-on-invalid-dep=yes");
    }
    words.push_back(batch_script_path(job).string());
    return words;
  }

  JobRecord submit_one(const Job& job, std::vector<std::string> words, const std::vector<JobRecord>& earlier) {
    const fs::path folder = slurm_folder(job.stage, job.folder);
    forget_earlier_launch(folder);
    for (std::string& word : words) word = with_ids(word, earlier);
    const CommandOutput result = run_slurm(words, 4 * kSlurmSeconds);
    const std::string id = result.output.substr(0, result.output.find_first_of(";\n"));
    if (result.status != 0 || id.empty()) throw Failure("sbatch did not take {}: {}", job.name, complaint_of(result));
    JobRecord record{.name = job.name, .stage = job.stage, .id = id, .folder = job.folder, .run_folder = job.run_folder};
    std::vector<JobRecord> after;
    for (const JobRecord& other : earlier)
      if (std::ranges::find(job.after, other.name) != job.after.end()) after.push_back(other);
    queue_.remember(record, narrow<int64_t>(job.tasks.size()), after);
    return record;
  }

  // A launch that is continued counts its attempts anew.
  static void forget_earlier_launch(const fs::path& folder) {
    std::error_code failed;
    std::vector<fs::path> old = {folder / "attempts.json"};
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed))
      if (entry.path().filename().string().ends_with("end.json")) old.push_back(entry.path());
    for (const fs::path& path : old) fs::remove(path, failed);
  }

  LaunchOptions options_;
  SlurmSite site_;
  SlurmJobQueue queue_;
};

}  // namespace

std::unique_ptr<LaunchTarget> make_slurm_target(const LaunchOptions& options) { return std::make_unique<SlurmTarget>(options); }

}  // namespace trireme
