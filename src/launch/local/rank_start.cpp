#include "launch/local/rank_start.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "launch/local/apply_binding.h"
#include "launch/local/rank_socket.h"

namespace trireme {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
constexpr std::array kScratchVariables = {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_orte_tmpdir_base"};

// Of this process: 0 if nothing says otherwise.
int64_t local_rank_in_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "TRIREME_LOCAL_RANK"})
    if (const char* text = std::getenv(name); text != nullptr) {
      int64_t rank = 0;
      std::from_chars(text, text + std::strlen(text), rank);
      return rank;
    }
  return 0;
}

std::vector<std::string> command_of_rank(const LocalJob& job, int64_t local_rank, bool resumes) {
  std::vector<std::string> words = job.command;
  if (!job.tasks.empty()) {
    const auto& task = job.tasks.at(static_cast<size_t>(local_rank));
    words.insert(words.end(), task.begin(), task.end());
  }
  if (resumes) words.insert(words.end(), job.resume.begin(), job.resume.end());
  return words;
}

bool begins_with_any(std::string_view name, std::initializer_list<std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

}  // namespace

std::vector<std::string> start_command(const LocalJob& job, const AttemptStart& start) {
  std::vector<std::string> words;
  if (job.starter == RankStarter::mpirun) {
    // Ranks are bound by start-rank, so that bindings do not depend on who starts them.
    words = {"mpirun", "-n", fmt::format("{}", job.ranks), "--oversubscribe", "--bind-to", "none"};
    if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  for (const std::string& word :
       {start.program, std::string("launch"), std::string("start-rank"), start.launch_file.string(), job.name, start.socket})
    words.push_back(word);
  if (start.resumes) words.emplace_back("--resume");
  return words;
}

std::vector<std::string> container_command(const LocalJob& job, const AttemptStart& start) {
  std::vector<std::string> words = job.container;
  for (const std::string& word :
       {std::string("trireme"), std::string("launch"), std::string("supervise"), start.launch_file.string(), "--job=" + job.name})
    words.push_back(word);
  if (start.resumes) words.emplace_back("--resume");
  return words;
}

std::filesystem::path scratch_folder(const LocalJob& job) {
  const auto is_set = [&](const char* name) {
    return std::getenv(name) != nullptr ||
           std::ranges::find(job.environment, name, &EnvironmentVariable::name) != job.environment.end();
  };
  if (job.starter != RankStarter::mpirun || std::ranges::any_of(kScratchVariables, is_set)) return {};
  if (::access(kSharedMemory, W_OK) != 0) return {};
  return fmt::format("{}/trireme-{}-{:08x}", kSharedMemory, ::geteuid(), crc32c(bytes_of(job.folder.string())));
}

std::vector<EnvironmentVariable> rank_environment(const LocalJob& job, const AttemptStart& start, int64_t local_rank) {
  std::vector<EnvironmentVariable> all = job.environment;
  if (job.starter == RankStarter::mpirun) {
    // Waiting ranks leave the cores to those that compute.
    const bool shares_cores = job.ranks > static_cast<int64_t>(std::thread::hardware_concurrency());
    if (shares_cores) all.push_back({"OMPI_MCA_mpi_yield_when_idle", "1"});
    if (const std::filesystem::path scratch = scratch_folder(job); !scratch.empty())
      for (const char* variable : kScratchVariables) all.push_back({variable, scratch.string()});
    return all;
  }
  all.push_back({"TRIREME_LOCAL_RANK", fmt::format("{}", local_rank)});
  if (job.world == 1 || !job.tasks.empty()) return all;
  all.push_back({"RANK", fmt::format("{}", job.first_rank + local_rank)});
  all.push_back({"WORLD_SIZE", fmt::format("{}", job.world)});
  all.push_back({"LOCAL_RANK", fmt::format("{}", local_rank)});
  all.push_back({"LOCAL_WORLD_SIZE", fmt::format("{}", job.ranks)});
  all.push_back({"GPUS_PER_NODE", fmt::format("{}", job.ranks)});
  if (start.port != 0) {
    all.push_back({"MASTER_ADDR", "127.0.0.1"});
    all.push_back({"MASTER_PORT", fmt::format("{}", start.port)});
  }
  return all;
}

void forget_other_launchers() {
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (begins_with_any(name, {"OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_APP_", "OMPI_NUM_", "OMPI_FIRST_", "OMPI_MCA_ess",
                               "OMPI_MCA_orte_", "PMIX_", "PMI_", "TORCHELASTIC_", "SLURM_STEP_", "SLURM_PROCID"}) ||
        name == "RANK" || name == "WORLD_SIZE" || name == "LOCAL_RANK" || name == "LOCAL_WORLD_SIZE")
      names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

void become_rank(const StartedRank& started) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  const LocalLaunch launch = read_local_launch(started.launch_file);
  const auto job = std::ranges::find(launch.jobs, started.job, &LocalJob::name);
  if (job == launch.jobs.end()) throw UserError("{} has no job {}", started.launch_file.string(), started.job);
  const int64_t local_rank = local_rank_in_environment();
  // Without a supervisor there is no rank: this also covers one that died before the first line of this function.
  report_to_supervisor(started.socket, local_rank);
  if (static_cast<size_t>(local_rank) < job->bindings.size()) apply_binding(job->bindings[static_cast<size_t>(local_rank)]);
  const std::vector<std::string> words = command_of_rank(*job, local_rank, started.resumes);
  become_program(words);
}

}  // namespace trireme
