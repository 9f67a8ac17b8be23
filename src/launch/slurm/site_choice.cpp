#include "launch/slurm/site_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "comm/world.h"
#include "config/suggestions.h"
#include "launch/slurm/slurm_text.h"

namespace trireme {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

bool has(const std::vector<std::string>& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

class SiteChoice {
 public:
  SiteChoice(const SlurmSite& site, const LaunchOptions& options, const Job& job)
      : site_(site), options_(options), job_(job), wanted_nodes_(job.nodes + spares_of(options, job)) {}

  SlurmRun choose() {
    if (const std::string& mpi = options_.mpi; !mpi.empty() && mpi != "none" && !mpi.starts_with("pmix"))
      throw UserError("mpi={}: use pmix or none", mpi);
    choose_time();
    run_.exclusive = options_.exclusive;
    run_.requeue = options_.requeue;
    if (!site_.unknown.empty()) return choose_without_site();
    partition_ = &find_partition();
    require_access();
    require_nodes();
    require_time();
    require_ranks();
    choose_gpus();
    choose_cpus();
    choose_mpi();
    choose_container();
    choose_requeue();
    explain_restarts();
    return std::move(run_);
  }

 private:
  static int64_t spares_of(const LaunchOptions& options, const Job& job) {
    return job.stage == JobStage::training ? options.spares : 0;
  }

  void say(std::string what, std::string why) { run_.choices.push_back({std::move(what), std::move(why)}); }

  SlurmRun choose_without_site() {
    say("checks left out: partition, nodes, GPUs, time limit, PMIx and pyxis", site_.unknown);
    if (job_.has_gpus) run_.gpus_per_node = gpus_wanted();
    if (!options_.mpi.empty()) run_.mpi = options_.mpi;
    if (job_.container) run_.image = pyxis_image(job_.container->image, run_.choices);
    return std::move(run_);
  }

  const SlurmPartition& find_partition() {
    std::vector<std::string> names;
    for (const SlurmPartition& partition : site_.partitions) {
      if (partition.name == options_.partition) return partition;
      if (options_.partition.empty() && partition.is_default) {
        say("partition " + partition.name, "the default of cluster " + site_.cluster);
        return partition;
      }
      names.push_back(partition.name);
    }
    if (options_.partition.empty())
      throw UserError("this Slurm has no default partition; add --partition {}", fmt::join(names, "|"));
    throw UserError("partition={}: cluster {} has {}{}", options_.partition, site_.cluster, list_of(names),
                    did_you_mean(options_.partition, names));
  }

  void require_access() const {
    const SlurmPartition& partition = *partition_;
    if (partition.state == "INACTIVE" || partition.state == "DRAIN")
      throw UserError("partition={} is {} and takes no jobs; use another one", partition.name, partition.state);
    const std::string& account = options_.account;
    if (!account.empty() && !partition.accounts.empty() && !has(partition.accounts, account))
      throw UserError("account={}: partition {} is for {}", account, partition.name, list_of(partition.accounts));
    if (!account.empty() && has(partition.not_accounts, account))
      throw UserError("account={} may not use partition {}", account, partition.name);
    if (!options_.qos.empty() && !partition.qos.empty() && !has(partition.qos, options_.qos))
      throw UserError("qos={}: partition {} has {}", options_.qos, partition.name, list_of(partition.qos));
  }

  std::vector<const SlurmNode*> nodes_of_partition() const {
    std::vector<const SlurmNode*> nodes;
    for (const SlurmNode& node : site_.nodes)
      if (has(node.partitions, partition_->name)) nodes.push_back(&node);
    return nodes;
  }

  std::string wanted_text() const {
    const int64_t spares = wanted_nodes_ - job_.nodes;
    return spares > 0 ? fmt::format("nodes={} and spares={}", job_.nodes, spares) : fmt::format("nodes={}", job_.nodes);
  }

  void require_nodes() {
    if (partition_->nodes < wanted_nodes_)
      throw UserError("{}: partition {} has {} node{}", wanted_text(), partition_->name, partition_->nodes,
                      partition_->nodes == 1 ? "" : "s");
    if (partition_->most_nodes >= 0 && partition_->most_nodes < wanted_nodes_)
      throw UserError("{}: partition {} allows jobs of at most {} nodes", wanted_text(), partition_->name,
                      partition_->most_nodes);
    if (partition_->least_nodes > wanted_nodes_)
      throw UserError("{}: partition {} allows jobs of at least {} nodes", wanted_text(), partition_->name,
                      partition_->least_nodes);
    std::vector<std::string> unusable;
    int64_t powered_down = 0;
    for (const SlurmNode* node : nodes_of_partition()) {
      const std::string reason = node->reason.empty() ? "" : ": " + node->reason;
      if (!is_usable(*node)) unusable.push_back(fmt::format("{} is {}{}", node->name, node->state, reason));
      powered_down += node->state.find("POWERED_DOWN") != std::string::npos ? 1 : 0;
    }
    if (powered_down > 0)
      say(fmt::format("{} nodes of {} are powered down", powered_down, partition_->name), "Slurm starts those that the job gets");
    if (unusable.empty()) return;
    const int64_t usable = partition_->nodes - narrow<int64_t>(unusable.size());
    say(fmt::format("{} of {} nodes of {} are usable{}", usable, partition_->nodes, partition_->name,
                    usable < wanted_nodes_ ? fmt::format("; the job waits for {}", wanted_nodes_) : ""),
        list_of(shortened(unusable)));
  }

  static std::vector<std::string> shortened(std::vector<std::string> lines) {
    constexpr size_t kShown = 4;
    if (lines.size() > kShown) {
      const size_t more = lines.size() - kShown;
      lines.resize(kShown);
      lines.push_back(fmt::format("and {} more", more));
    }
    return lines;
  }

  void require_time() {
    const int64_t most = partition_->most_seconds;
    if (seconds_ && most >= 0 && *seconds_ > most)
      throw UserError("time={}: partition {} allows {}", options_.time, partition_->name, format_slurm_seconds(most));
    if (partition_->state == "DOWN") say("partition " + partition_->name + " is DOWN", "the job waits until it is up");
    if (!seconds_ && run_.signal_before > 0) {
      const int64_t limit = partition_->default_seconds >= 0 ? partition_->default_seconds : most;
      if (limit >= 0) fit_signal(limit);
    }
  }

  void require_ranks() const {
    if (const int64_t most = site_.most_array_tasks; most >= 0 && narrow<int64_t>(job_.tasks.size()) > most)
      throw UserError("{} has {} tasks and this site allows {} per array; prepare fewer files at a time with --files", job_.name,
                      job_.tasks.size(), most);
    int64_t most_cpus = 0;
    for (const SlurmNode* node : nodes_of_partition()) most_cpus = std::max(most_cpus, node->cpus);
    if (most_cpus > 0 && job_.ranks_per_node > most_cpus)
      throw UserError("ranks={} per node: the nodes of partition {} have at most {} CPUs; use fewer ranks on more nodes",
                      job_.ranks_per_node, partition_->name, most_cpus);
  }

  int64_t gpus_wanted() const { return options_.gpus_per_node > 0 ? options_.gpus_per_node : job_.ranks_per_node; }

  void choose_gpus() {
    if (!job_.has_gpus && options_.gpus_per_node == 0) return;
    if (!has_ranks(job_.stage)) return;
    int64_t most = 0, fitting = 0;
    for (const SlurmNode* node : nodes_of_partition()) {
      most = std::max(most, node->gpus);
      fitting += node->gpus >= gpus_wanted() ? 1 : 0;
    }
    if (job_.has_gpus && options_.gpus_per_node > 0 && options_.gpus_per_node < job_.ranks_per_node)
      throw UserError("gpus_per_node={} and {} ranks per node; every rank needs a GPU of its own", options_.gpus_per_node,
                      job_.ranks_per_node);
    if (most == 0) {
      if (options_.gpus_per_node > 0)
        throw UserError("gpus_per_node={}: partition {} has no GPUs that Slurm knows of", options_.gpus_per_node,
                        partition_->name);
      run_.exclusive = true;
      return say("--exclusive and no --gpus-per-node", "Slurm counts no GPUs on this site, so nodes are taken whole");
    }
    const char* given = options_.gpus_per_node > 0 ? "gpus_per_node" : "ranks";
    if (most < gpus_wanted())
      throw UserError("{}={}: the nodes of partition {} have {} GPUs; use {} more nodes with fewer ranks each", given,
                      gpus_wanted(), partition_->name, most, ceil_div(job_.nodes * gpus_wanted(), most) - job_.nodes);
    if (fitting < wanted_nodes_)
      throw UserError("{}: only {} nodes of partition {} have {} GPUs", wanted_text(), fitting, partition_->name, gpus_wanted());
    run_.gpus_per_node = gpus_wanted();
    say(fmt::format("--gpus-per-node={}", gpus_wanted()), fmt::format("nodes of {} have up to {}", partition_->name, most));
  }

  // srun gives a task one CPU unless told otherwise, and a rank has threads of its own.
  void choose_cpus() {
    int64_t cpus = 0, gpus = 0;
    for (const SlurmNode* node : nodes_of_partition())
      if (cpus == 0 || node->cpus < cpus) cpus = node->cpus;
    for (const SlurmNode* node : nodes_of_partition()) gpus = std::max(gpus, node->gpus);
    if (!has_ranks(job_.stage)) {
      run_.cpus_per_task = cpus;
      if (cpus > 0) say(fmt::format("{}: --cpus-per-task={}", job_.name, cpus), "the task uses all cores of its node");
    } else if (run_.gpus_per_node > 0 && gpus > 0) {
      run_.cpus_per_task = std::max<int64_t>(1, cpus / gpus);
      say(fmt::format("--cpus-per-task={}", run_.cpus_per_task), fmt::format("{} CPUs for {} GPUs", cpus, gpus));
    } else if (run_.exclusive && cpus >= job_.ranks_per_node) {
      run_.cpus_per_task = cpus / job_.ranks_per_node;
      say(fmt::format("--cpus-per-task={}", run_.cpus_per_task), fmt::format("{} CPUs for {} ranks", cpus, job_.ranks_per_node));
    }
  }

  void choose_mpi() {
    if (!has_ranks(job_.stage)) return;
    if (!options_.mpi.empty()) {
      if (options_.mpi != "none" && !site_.has_pmix)
        throw UserError("mpi={}: this site's srun has no PMIx (srun --mpi=list shows what it has); leave out --mpi",
                        options_.mpi);
      run_.mpi = options_.mpi;
      return;
    }
    if (job_.has_gpus) return say("--mpi=none", "ranks meet over TCP, and GPUs talk through NCCL");
    if (!site_.has_pmix) return say("--mpi=none", "this site's srun has no PMIx, so ranks meet over TCP");
    if (!is_built_with_mpi()) return say("--mpi=none", "this program was built without MPI, so ranks meet over TCP");
    if (job_.container) return say("--mpi=none", "the MPI of the image may not fit the site's PMIx, so ranks meet over TCP");
    run_.mpi = "pmix";
    say("--mpi=pmix", "the site has PMIx, and ranks of one node then share memory");
  }

  void choose_container() {
    if (!job_.container) return;
    if (!site_.has_pyxis)
      throw UserError(
          "image={}: this site's srun has no --container-image, so pyxis is not installed; leave out --image to run "
          "this program itself",
          job_.container->image);
    run_.image = pyxis_image(job_.container->image, run_.choices);
    run_.overrides_image_environment = site_.has_container_env;
  }

  void choose_requeue() {
    if (site_.has_requeue || !run_.requeue) return;
    run_.requeue = false;
    say("--no-requeue", "this site does not let Slurm start jobs again (JobRequeue=0)");
  }

  void explain_restarts() {
    if (job_.stage != JobStage::training) return;
    if (wanted_nodes_ > job_.nodes)
      say(fmt::format("--nodes={} --no-kill", wanted_nodes_),
          fmt::format("{} for the run and {} spare, which take over without a new wait in the queue", job_.nodes,
                      wanted_nodes_ - job_.nodes));
    if (run_.signal_before > 0)
      say(fmt::format("--signal=B:USR1@{}", run_.signal_before),
          fmt::format("before the time limit the ranks save{}",
                      run_.requeue ? ", and the job queues again" : " and the job ends"));
  }

  void choose_time() {
    if (!options_.time.empty()) {
      seconds_ = parse_slurm_seconds(options_.time);
      const bool is_unlimited = options_.time == "UNLIMITED" || options_.time == "INFINITE" || options_.time == "infinite";
      if (!seconds_ && !is_unlimited) throw UserError("time={}: use D-HH:MM:SS, HH:MM:SS, MM:SS or minutes", options_.time);
      if (seconds_ && *seconds_ == 0) throw UserError("time={}: use a time limit of a minute at least", options_.time);
    }
    if (job_.stage != JobStage::training) return;
    constexpr int64_t kMostSeconds = 65535;  // of sbatch --signal
    if (options_.signal_before > kMostSeconds)
      throw UserError("signal_before={}: Slurm takes at most {} seconds", options_.signal_before, kMostSeconds);
    run_.signal_before = options_.signal_before;
    if (seconds_) fit_signal(*seconds_);
  }

  void fit_signal(int64_t limit) {
    if (run_.signal_before * 2 <= limit) return;
    run_.signal_before = limit / 2;
    say(fmt::format("the run saves {} s before its time limit", run_.signal_before),
        fmt::format("signal_before={} is more than half of {}", options_.signal_before, format_slurm_seconds(limit)));
  }

  const SlurmSite& site_;
  const LaunchOptions& options_;
  const Job& job_;
  int64_t wanted_nodes_;
  const SlurmPartition* partition_ = nullptr;
  std::optional<int64_t> seconds_;
  SlurmRun run_;
};

}  // namespace

std::string pyxis_image(const std::string& image, std::vector<LaunchChoice>& choices) {
  namespace fs = std::filesystem;
  const bool is_path = image.starts_with('/') || image.starts_with("./") || image.starts_with("../");
  std::error_code failed;
  if (is_path) {
    if (!fs::exists(image, failed)) throw UserError("image={}: there is no such file", image);
    return fs::absolute(image).lexically_normal().string();
  }
  for (const char* ending : {".sqsh", ".squashfs", ".sqfs"})
    if (image.ends_with(ending))
      throw UserError("image={}: pyxis takes this for a name in a registry; the path of a file begins with / or ./, as in ./{}",
                      image, image);
  std::string name = image.starts_with("docker://") ? image.substr(std::string_view("docker://").size()) : image;
  if (name.empty() || name.find("://") != std::string::npos || name.find_first_of(" ,") != std::string::npos)
    throw UserError("image={}: use the path of a squashfs file, or [REGISTRY#]NAME[:TAG] as in nvcr.io#nvidia/pytorch:24.07-py3",
                    image);
  // Elsewhere the registry ends at the first slash. It is one if it looks like a host.
  const size_t slash = name.find('/');
  const std::string first = name.substr(0, slash);
  const bool is_host = slash != std::string::npos && (first.find_first_of(".:") != std::string::npos || first == "localhost");
  if (is_host && name.find('#') == std::string::npos) {
    name[slash] = '#';
    choices.push_back({"image " + name, "pyxis separates the registry with #"});
  }
  return name;
}

SlurmRun choose_run(const SlurmSite& site, const LaunchOptions& options, const Job& job) {
  return SiteChoice(site, options, job).choose();
}

}  // namespace trireme
