#include "launch/local/local_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>

#include "backend/cuda_module.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "comm/world.h"
#include "launch/local/binding.h"
#include "launch/local/container_start.h"
#include "launch/local/gpu_list.h"
#include "launch/plan_launch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPodVariable = "JOB_COMPLETION_INDEX";

const char* set_variable_or_null(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

int64_t pod_index() {
  const char* index = set_variable_or_null(kPodVariable);
  return index == nullptr || set_variable_or_null("NNODES") == nullptr ? 0 : std::atoll(index);
}

// A folder that cannot be written is found before anything is started.
void require_writable(const fs::path& folder) {
  fs::path existing = folder;
  std::error_code failed;
  while (!fs::exists(existing, failed) && existing.has_parent_path() && existing != existing.parent_path())
    existing = existing.parent_path();
  if (!fs::is_directory(existing, failed)) throw UserError("results {}: {} is not a folder", folder.string(), existing.string());
  if (::access(existing.c_str(), W_OK) != 0)
    throw UserError("results {}: {} cannot be written by you; use --results FOLDER", folder.string(), existing.string());
}

bool contains_word(const Job& job, std::string_view word) { return std::ranges::find(job.command, word) != job.command.end(); }

class LocalPlanner {
 public:
  explicit LocalPlanner(const LaunchOptions& options) : options_(options) {}

  LocalPlan plan(const std::vector<Job>& jobs) {
    plan_.launch.max_restarts = options_.max_restarts;
    for (const Job& job : jobs) add(job);
    plan_.choices.push_back({fmt::format("{} attempts", std::max<int64_t>(options_.max_restarts, 1)),
                             "without a new checkpoint, then status 93 (--max-restarts)"});
    return std::move(plan_);
  }

 private:
  void add(const Job& job) {
    require_writable(job.folder);
    const bool is_first_training = job.stage == JobStage::training && !has_training_;
    has_training_ |= job.stage == JobStage::training;
    LocalJob local{.name = job.name,
                   .stage = job.stage,
                   .command = job.command,
                   .tasks = job.tasks,
                   .environment = job.environment,
                   .bindings = {},
                   .container = {},
                   .container_removal = {},
                   .folder = local_folder(job.folder, job.stage),
                   .run_folder = job.run_folder.empty() ? job.folder / name_of(job.stage) : job.run_folder,
                   .resume = {},
                   .after = job.after};
    if (has_ranks(job.stage)) place_ranks(job, local);
    if (!job.tasks.empty()) limit_tasks(job, local);
    // A benchmark has no checkpoints to continue from, and measures from the start again.
    if (job.stage == JobStage::training && !contains_word(job, "--benchmark"))
      local.resume = {"--resume", "++exp_manager.resume_ignore_no_checkpoint=true"};
    local.resumes_at_once = options_.resume || is_in_pod();
    notes_ = is_first_training || (job.stage != JobStage::training && job.stage != JobStage::validation);
    if (has_ranks(job.stage)) use_cores(job, local);
    choose_starter(job, local);
    plan_.launch.jobs.push_back(std::move(local));
  }

  void note(std::string what, std::string why) {
    if (notes_) plan_.choices.push_back({std::move(what), std::move(why)});
  }

  void place_ranks(const Job& job, LocalJob& local) const {
    const int64_t pod = job.nodes > 1 ? pod_index() : 0;
    if (job.nodes > 1 && set_variable_or_null("MASTER_ADDR") == nullptr)
      throw UserError("{} and NNODES={} are in the environment and MASTER_ADDR is not; set it to the address of pod 0",
                      kPodVariable, job.nodes);
    if (pod >= job.nodes) throw UserError("{}={} and NNODES={}: pods are counted from 0", kPodVariable, pod, job.nodes);
    local.ranks = job.ranks_per_node;
    local.first_rank = pod * job.ranks_per_node;
    local.world = job.nodes * job.ranks_per_node;
  }

  void limit_tasks(const Job& job, LocalJob& local) {
    const auto cores = static_cast<int64_t>(std::max(std::thread::hardware_concurrency(), 1U));
    local.tasks_at_once = job.tasks_at_once > 0 ? job.tasks_at_once : cores;
    if (job.tasks_at_once == 0) note(fmt::format("{} tasks at once", cores), "one per core; --tasks-at-once changes it");
  }

  void use_cores(const Job& job, LocalJob& local) {
    std::vector<int64_t> gpus;
    if (job.has_gpus || !options_.gpus.empty()) {
      const GpuList list =
          choose_gpus(options_.gpus, set_variable_or_null("CUDA_VISIBLE_DEVICES"), cuda_device_count(), local.ranks);
      if (job.has_gpus && !list.visible.empty()) {
        local.environment.push_back({"CUDA_VISIBLE_DEVICES", list.visible});
        note("CUDA_VISIBLE_DEVICES=" + list.visible, "local rank k uses the k-th");
      }
      if (job.has_gpus) gpus = list.of_rank;
    }
    const MachineTopology machine = read_topology();
    const BindingPlan binding = plan_binding(machine, options_, local.ranks, gpus);
    local.bindings = binding.ranks;
    if (local.bindings.empty())
      note("no binding", binding.reason);
    else
      note(fmt::format("{} core{} per rank", local.bindings.front().cpus.size(),
                       local.bindings.front().cpus.size() == 1 ? "" : "s"),
           binding.reason);
    for (int64_t rank = 0; rank < local.ranks && options_.report_bindings; ++rank) {
      const RankBinding own = local.bindings.empty() ? RankBinding{} : local.bindings[static_cast<size_t>(rank)];
      note(fmt::format("rank {} {}", local.first_rank + rank, binding_text(machine, own)), "--report-bindings");
    }
  }

  void choose_starter(const Job& job, LocalJob& local) {
    local.may_use_mpirun = !job.has_gpus && local.ranks > 1 && local.world == local.ranks;
    if (job.container) return use_container(job, local);
    if (local.ranks == 1 && local.world == 1) return;
    if (local.world > local.ranks)
      return note(fmt::format("ranks {} to {} of {}", local.first_rank, local.first_rank + local.ranks - 1, local.world),
                  fmt::format("{} and NNODES in the environment; they meet at MASTER_ADDR", kPodVariable));
    if (job.has_gpus) return note("ranks started without mpirun", "GPU ranks talk through NCCL and meet over TCP");
    if (!is_built_with_mpi()) return note("ranks started without mpirun", "this trireme was built without MPI");
    if (find_program("mpirun").empty()) return note("ranks started without mpirun", "it is not on PATH; they talk over TCP");
    local.starter = RankStarter::mpirun;
    note("ranks started with mpirun", "CPU ranks talk through MPI's shared memory");
  }

  void use_container(const Job& job, LocalJob& local) {
    const ContainerDevices devices = container_devices(job.has_gpus ? std::max<int64_t>(cuda_device_count(), 1) : 0);
    const ContainerStart start = container_start(*job.container, fmt::format("trireme-{}-{}", job.name, ::getpid()), {}, devices);
    require_container(*job.container);
    local.starter = RankStarter::container;
    local.container = start.start;
    local.container_removal = start.removal;
    note(fmt::format("{} {}", job.container->runtime, job.container->image), "--container; its ranks are started in it");
    if (job.container->runtime == "podman" && !devices.can_raise_limits)
      note("--ulimit=host", "this user may not raise limits; for InfiniBand, raise memlock before");
  }

  const LaunchOptions& options_;
  LocalPlan plan_;
  bool has_training_ = false, notes_ = true;
};

}  // namespace

LocalPlan plan_local(const std::vector<Job>& jobs, const LaunchOptions& options) { return LocalPlanner(options).plan(jobs); }

fs::path local_folder(const fs::path& folder, JobStage stage) {
  fs::path own = folder;
  if (stage != JobStage::training) own /= name_of(stage);
  if (const int64_t pod = pod_index(); pod > 0) own /= fmt::format("pod-{:05}", pod);
  return own;
}

fs::path launch_file_of(const std::vector<Job>& jobs) {
  // The folder of a point of a sweep is within that of the launch.
  fs::path folder = jobs.front().folder;
  if (jobs.front().run_folder.parent_path() == folder && folder.filename().string().starts_with("point-"))
    folder = folder.parent_path();
  return local_folder(folder, JobStage::training) / "local.json";
}

}  // namespace trireme
