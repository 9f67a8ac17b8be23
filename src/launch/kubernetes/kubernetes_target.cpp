// Jobs on Kubernetes: one Helm release of the chart charts/trireme per job.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "launch/kubernetes/chart_release.h"
#include "launch/kubernetes/helm_values.h"
#include "launch/kubernetes/job_status.h"
#include "launch/kubernetes/pod_files.h"
#include "launch/launch_record.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSecondsToInstall = 300;
constexpr auto kPollInterval = std::chrono::seconds(2);
constexpr size_t kLongestRelease = 53;  // Helm's

std::string selector_of(const Release& release) {
  return fmt::format("app.kubernetes.io/instance={},app.kubernetes.io/component=workload", release.name);
}

bool has_ended_phase(JobPhase phase) {
  return phase == JobPhase::done || phase == JobPhase::failed || phase == JobPhase::stopped;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

std::string text_of_variable(const nlohmann::json& pod, const char* name) {
  for (const auto& container : pod.at("spec").at("containers"))
    for (const auto& variable : container.value("env", nlohmann::json::array()))
      if (variable.value("name", "") == name) return variable.value("value", "");
  return "";
}

class KubernetesTarget : public LaunchTarget {
 public:
  explicit KubernetesTarget(LaunchOptions options) : options_(std::move(options)) {}

  Submission prepare(const std::vector<Job>& jobs) override {
    const fs::path chart = find_chart(options_.chart);
    for (const Job& job : jobs)
      if (job.name.size() > kLongestRelease)
        throw UserError("{} has {} characters and Helm takes {} for a release; give a shorter --name", job.name, job.name.size(),
                        kLongestRelease);
    access_ = find_cluster(options_.context, options_.namespace_name);
    Submission submission;
    add_choices(submission, jobs);
    for (const Job& job : jobs) {
      const ChartRelease release = chart_release(job, jobs, options_, chart);
      submission.files.push_back({release.values_file, release.values});
      if (has_helm())
        submission.files.push_back({job.folder / (job.name + "-manifests.yaml"), render(job, release, access_.name_space)});
      std::vector<std::string> words{"install", job.name};
      words.insert(words.end(), release.arguments.begin(), release.arguments.end());
      submission.commands.push_back(helm_command(release_of(job.name), words));
    }
    return submission;
  }

  void require_ready(const std::vector<Job>& jobs) override {
    if (!has_helm())
      throw UserError("helm is not on the path; install it from https://helm.sh, or take the values that --dry-run prints");
    if (!access_.problem.empty()) throw UserError("{}", access_.problem);
    if (options_.mode == "jobset")
      require_object({"get", "crd", "jobsets.jobset.x-k8s.io"}, "mode=jobset: the cluster has no JobSet; use --mode job");
    if (!options_.queue.empty())
      require_object({"get", "localqueues.kueue.x-k8s.io", options_.queue},
                     fmt::format("queue={}: namespace {} has no such queue of Kueue", options_.queue, access_.name_space));
    if (const std::string claim = options_.pvc.substr(0, options_.pvc.find(':')); !claim.empty())
      require_object({"get", "persistentvolumeclaim", claim},
                     fmt::format("pvc={}: namespace {} has no such claim", claim, access_.name_space));
    for (const Job& job : jobs) require_free_release(job);
  }

  std::vector<JobRecord> submit(const std::vector<Job>& jobs, const Submission& submission) override {
    for (const SubmissionFile& file : submission.files) {
      create_folders(file.path.parent_path());
      atomic_write(file.path, bytes_of(file.text));
    }
    for (const Release& release : to_replace_) uninstall(release);
    std::vector<JobRecord> records;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const Release release = release_of(jobs[i].name);
      const CommandOutput result = run_with_limit(submission.commands.at(i), kSecondsToInstall);
      if (result.status != 0) {
        uninstall(release);
        for (const JobRecord& record : records) uninstall(parse_release(record.id));
        throw Failure("{} cannot be installed: {}", jobs[i].name, helm_complaint(result.errors));
      }
      records.push_back({jobs[i].name, jobs[i].stage, id_of(release), jobs[i].folder, jobs[i].run_folder});
    }
    return records;
  }

  JobStatus status(const JobRecord& job) override {
    try {
      const Release release = parse_release(job.id);
      const auto object = kubectl_json(release, {"get", kind_of(job), release.name});
      if (!object)
        return {.phase = JobPhase::stopped,
                .detail = fmt::format("namespace {} has no job {}", release.name_space, release.name),
                .exit_status = {}};
      JobStatus status = job_status(*object, pods_of(release));
      if (status.phase == JobPhase::waiting && has_broken_chain(release)) {
        status.phase = JobPhase::failed;
        status.detail = "a job before it failed, so it is not started";
      }
      return status;
    } catch (const Failure& error) {
      return {.phase = JobPhase::unknown, .detail = error.what(), .exit_status = {}};
    }
  }

  void stop(const JobRecord& job) override {
    const Release release = parse_release(job.id);
    uninstall(release);
    // Pods that helm test and --fetch make do not belong to the release.
    run_with_limit(kubectl_command(release, {"delete", "pod", release.name + "-test", release.name + "-reader",
                                             "--ignore-not-found", "--wait=false"}),
                   kSecondsToInstall);
  }

  void show_log(const JobRecord& job, const LogRequest& request) override {
    const Release release = parse_release(job.id);
    std::string since;
    for (;;) {
      const JobStatus before = status(job);
      const nlohmann::json pods = pods_of(release);
      const bool has_log = std::ranges::any_of(pods.at("items"), has_started);
      if (!has_log && (!request.follow || has_ended_phase(before.phase)))
        throw UserError("{} has no log: {}{}{}", job.name, name_of(before.phase), before.detail.empty() ? "" : ", ",
                        before.detail);
      if (has_log) print_log(release, pods, request, since);
      if (!request.follow || has_ended_phase(status(job).phase)) return;
      if (has_log) since = utc_now();
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  fs::path log_file(const JobRecord& job, std::optional<int64_t>) override {
    return fs::path(pod_folders(options_).in_pod(job.folder)) / "pods";
  }

  int64_t fetch_files(const fs::path& folder, const std::string& glob, const fs::path& to) override {
    const LaunchRecord record = read_record(folder);
    if (record.jobs.empty()) throw UserError("{} has no jobs", record.name);
    const PodFolders folders = pod_folders(options_);
    const std::string in_pod = folders.in_pod(folder);
    for (const JobRecord& job : record.jobs) {
      const Release release = parse_release(job.id);
      const nlohmann::json pods = pods_of(release);
      for (const nlohmann::json& pod : pods.at("items"))
        if (index_of_pod(pod) <= 0 && pod.at("status").value("phase", "") == "Running")
          return copy_from_pod(release, pod.at("metadata").at("name"), in_pod, glob, to);
    }
    return fetch_from_volume(record, folders, in_pod, glob, to);
  }

 private:
  static bool has_helm() { return !find_program("helm").empty(); }

  Release release_of(const std::string& job) const { return {job, access_.name_space, access_.context}; }
  std::string kind_of(const JobRecord& job) const {
    return options_.mode == "jobset" && job.stage == JobStage::training ? "jobset" : "job";
  }

  void add_choices(Submission& submission, const std::vector<Job>& jobs) const {
    auto& choices = submission.choices;
    choices.push_back(
        {fmt::format("namespace {}, context {}", access_.name_space, access_.context.empty() ? "none" : access_.context),
         options_.context.empty() ? "of the kubeconfig, where not given" : "--context"});
    if (!access_.problem.empty()) choices.push_back({"no cluster is asked", access_.problem});
    if (!has_helm()) choices.push_back({"no manifests", "helm is not on the path"});
    const PodFolders folders = pod_folders(options_);
    if (folders.is_shared)
      choices.push_back(
          {fmt::format("results in {}", folders.results), fmt::format("claim {}, shared by all pods", options_.pvc)});
    else if (!folders.copy.empty())
      choices.push_back(
          {fmt::format("results copied to {}", folders.copy), "from the disks of the pods, every few minutes and at the end"});
    else
      choices.push_back(
          {fmt::format("results in {} are lost with the pods", folders.results), "neither --pvc nor --bucket is given"});
    if (!folders.is_shared && std::ranges::any_of(jobs, [](const Job& job) { return job.nodes > 1; }))
      choices.push_back({"checkpoints of several pods are incomplete", "their disks are not shared; --pvc CLAIM shares them"});
    for (const Job& job : jobs)
      if (!job.after.empty())
        choices.push_back({fmt::format("{} is suspended until {} has succeeded", job.name, fmt::join(job.after, ", ")),
                           fmt::format("job {}-chain starts it", job.name)});
  }

  // UserError with this text if the cluster says that the object is not there. Who may not look is not hindered.
  void require_object(std::vector<std::string> words, const std::string& text) const {
    words.insert(words.end(), {"-o", "name"});
    const CommandOutput result = run_with_limit(kubectl_command(release_of(""), words), kSecondsToInstall);
    const bool is_missing = result.errors.find("NotFound") != std::string::npos ||
                            result.errors.find("doesn't have a resource type") != std::string::npos;
    if (result.status != 0 && is_missing) throw UserError("{}", text);
  }

  void require_free_release(const Job& job) {
    const Release release = release_of(job.name);
    const CommandOutput result =
        run_with_limit(helm_command(release, {"status", job.name, "--output", "json"}), kSecondsToInstall);
    if (result.status != 0) return;
    const nlohmann::json found = try_parse_json(result.output);
    const nlohmann::json info = found.value("info", nlohmann::json::object());
    const nlohmann::json config = found.value("config", nlohmann::json::object());
    const JobRecord record{job.name, job.stage, id_of(release), job.folder, job.run_folder};
    const JobPhase phase = status(record).phase;
    const bool is_alive = phase == JobPhase::running || phase == JobPhase::waiting;
    if (options_.resume && !is_alive) {
      to_replace_.push_back(release);
      return;
    }
    const std::string who = config.is_object() ? config.value("launchedBy", "") : "";
    throw UserError("{} is in use: a release{} in namespace {}, {} since {}, job {}; helm uninstall {} --namespace {} frees it",
                    job.name, who.empty() ? "" : " of " + who, release.name_space, info.value("status", "there"),
                    info.value("first_deployed", "an unknown time").substr(0, 19), name_of(phase), job.name, release.name_space);
  }

  static void uninstall(const Release& release) {
    const CommandOutput result = run_with_limit(helm_command(release, {"uninstall", release.name}), kSecondsToInstall);
    if (result.status != 0 && result.errors.find("not found") == std::string::npos)
      throw Failure("{} cannot be uninstalled: {}", release.name, helm_complaint(result.errors));
  }

  static nlohmann::json pods_of(const Release& release) {
    const auto pods = kubectl_json(release, {"get", "pods", "--selector", selector_of(release)});
    if (!pods || !pods->contains("items")) return {{"items", nlohmann::json::array()}};
    return *pods;
  }

  // A job that waits for another one that failed waits for ever.
  static bool has_broken_chain(const Release& release) {
    const auto chain = kubectl_json(release, {"get", "job", release.name + "-chain"});
    return chain && job_status(*chain, {{"items", nlohmann::json::array()}}).phase == JobPhase::failed;
  }

  static void print_log(const Release& release, const nlohmann::json& pods, const LogRequest& request, const std::string& since) {
    const size_t count = pods.at("items").size();
    std::vector<std::string> words{"logs", "--container", "workload", "--tail=-1"};
    if (request.rank) {
      words.push_back(pod_of_rank(release, pods, *request.rank));
    } else {
      words.insert(words.end(),
                   {"--selector", selector_of(release), fmt::format("--max-log-requests={}", std::max<size_t>(count, 1))});
      if (count > 1) words.emplace_back("--prefix");
    }
    if (request.follow) words.emplace_back("--follow");
    if (!since.empty()) words.push_back("--since-time=" + since);
    if (const int status = run_attached(kubectl_command(release, words)); status != 0 && !request.follow)
      throw Failure("kubectl logs ended with status {}", status);
  }

  // The pod that a rank runs in. Pods of several ranks have one log.
  static std::string pod_of_rank(const Release& release, const nlohmann::json& pods, int64_t rank) {
    int64_t most = 0;
    for (const nlohmann::json& pod : pods.at("items")) {
      const int64_t index = index_of_pod(pod), ranks = std::max(1LL, std::atoll(text_of_variable(pod, "GPUS_PER_NODE").c_str()));
      most = std::max(most, (index + 1) * ranks);
      if (index < 0 || rank / ranks != index) continue;
      std::string name = pod.at("metadata").at("name");
      if (ranks > 1)
        fmt::print(stderr, "rank {} is in pod {}, whose log has ranks {} to {}\n", rank, name, index * ranks,
                   (index + 1) * ranks - 1);
      return name;
    }
    throw UserError("{} has no rank {}; its pods have ranks 0 to {}", release.name, rank, most - 1);
  }

  int64_t fetch_from_volume(const LaunchRecord& record, const PodFolders& folders, const std::string& in_pod,
                            const std::string& glob, const fs::path& to) const {
    const std::string copied = folders.copy.empty() ? "" : folders.copy + in_pod.substr(folders.results.size());
    if (!folders.is_shared && copied.empty())
      throw UserError("no pod of {} runs, and its files were on their disks; --pvc and --bucket keep them", record.name);
    if (!folders.is_shared && !copied.starts_with('/'))
      throw UserError("no pod of {} runs; trireme data fetch {}/ --output {} copies its files", record.name, copied, to.string());
    const JobRecord& job = record.jobs.front();
    const Release release = parse_release(job.id);
    const fs::path manifest = job.folder / (release.name + "-reader.yaml");
    atomic_write(manifest, bytes_of(render_reader(release, job.folder, options_)));
    const TemporaryPod pod(release, release.name + "-reader", manifest);
    return copy_from_pod(release, release.name + "-reader", folders.is_shared ? in_pod : copied, glob, to);
  }

  LaunchOptions options_;
  ClusterAccess access_;
  std::vector<Release> to_replace_;  // ended releases of the names of a launch that is resumed
};

}  // namespace

std::unique_ptr<LaunchTarget> make_kubernetes_target(const LaunchOptions& options) {
  return std::make_unique<KubernetesTarget>(options);
}

}  // namespace trireme
