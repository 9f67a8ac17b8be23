#include "launch/kubernetes/helm_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "launch/network_profile.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults = "/results";
constexpr const char* kBucketMount = "/bucket";

struct Claim {
  std::string name, path;
};

Claim parse_claim(const std::string& text) {
  const size_t colon = text.find(':');
  Claim claim{text.substr(0, colon), colon == std::string::npos ? kResults : text.substr(colon + 1)};
  if (claim.name.empty() || !claim.path.starts_with('/'))
    throw UserError("--pvc {}: use CLAIM, or CLAIM:/PATH with the path in the pods", text);
  return claim;
}

// A bucket that pods mount, or one of another store, which the program writes to.
struct Bucket {
  std::string mounted;  // its name; empty: not mounted
  std::string copy;
};

Bucket parse_bucket(const std::string& text) {
  for (const char* store : {"s3://", "az://"})
    if (text.starts_with(store)) return {"", text};
  const std::string path = text.starts_with("gs://") ? text.substr(5) : text;
  const size_t slash = path.find('/');
  const std::string name = path.substr(0, slash);
  if (name.empty() || path.find(':') != std::string::npos)
    throw UserError("--bucket {}: use NAME or gs://NAME, s3://NAME or az://ACCOUNT/CONTAINER, perhaps with a folder", text);
  return {name, slash == std::string::npos ? kBucketMount : kBucketMount + path.substr(slash)};
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder.ends_with('/') ? folder : folder + "/");
}

// The mounts of --mount: folders of the nodes.
std::vector<Mount> node_mounts(const LaunchOptions& options) {
  std::vector<Mount> mounts;
  for (const std::string& text : options.mounts) {
    const size_t colon = text.find(':');
    mounts.push_back({text.substr(0, colon), colon == std::string::npos ? text : text.substr(colon + 1)});
    if (!mounts.back().source.starts_with('/') || !mounts.back().destination.starts_with('/'))
      throw UserError("--mount {}: use absolute paths, SOURCE:DESTINATION or one path for both", text);
  }
  return mounts;
}

// Datasets are read in the pods, so their folder must be there.
void require_data_in_pods(const LaunchOptions& options) {
  if (options.data.empty()) return;
  std::vector<std::string> folders;
  if (!options.pvc.empty()) folders.push_back(parse_claim(options.pvc).path);
  if (!options.bucket.empty() && !parse_bucket(options.bucket).mounted.empty()) folders.emplace_back(kBucketMount);
  if (!options.ssd.empty()) folders.push_back(options.ssd);
  for (const Mount& mount : node_mounts(options)) folders.push_back(mount.destination);
  if (std::ranges::none_of(folders, [&](const std::string& folder) { return is_below(options.data, folder); }))
    throw UserError("--data {}: pods see no such folder; use one on a volume, as in --pvc CLAIM:{}, or --mount it from the nodes",
                    options.data, options.data);
}

Tree text_list(const std::vector<std::string>& words) {
  Tree::List list;
  for (const std::string& word : words) list.emplace_back(word);
  return Tree(list);
}

Tree map_of(std::initializer_list<std::pair<const char*, std::string>> entries) {
  Tree::Map map;
  for (const auto& [key, value] : entries) map.push_back({key, Tree(std::string(value))});
  return Tree(map);
}

void set_text(Tree& values, const char* path, const std::string& text) {
  if (!text.empty()) values.set(path, Tree(text));
}
void set_number(Tree& values, const char* path, int64_t number) {
  if (number != 0) values.set(path, Tree(number));
}

// A profile that the chart has brings its sidecars; only what differs from it is listed.
void set_network(Tree& values, const Job& job, const LaunchOptions& options) {
  std::vector<EnvironmentVariable> known;
  const auto shipped = shipped_networks();
  if (std::ranges::find(shipped, options.network) != shipped.end()) {
    values.set("network.stack", Tree(options.network));
    known = load_network_profile(options.network).environment;
  }
  Tree::List env;
  for (const EnvironmentVariable& variable : job.environment)
    if (std::ranges::find(known, variable) == known.end())
      env.push_back(map_of({{"name", variable.name}, {"value", variable.value}}));
  if (!env.empty()) values.set("workload.envs", Tree(env));
}

void set_volumes(Tree& values, const LaunchOptions& options) {
  set_text(values, "volumes.sharedMemorySize", options.shm);
  set_text(values, "volumes.ssdMountPath", options.ssd);
  if (!options.pvc.empty()) {
    const Claim claim = parse_claim(options.pvc);
    values.set("volumes.pvcMounts", Tree(Tree::List{map_of({{"claimName", claim.name}, {"mountPath", claim.path}})}));
  }
  if (!options.bucket.empty())
    if (const Bucket bucket = parse_bucket(options.bucket); !bucket.mounted.empty())
      values.set("volumes.gcsMounts", Tree(Tree::List{map_of({{"bucketName", bucket.mounted}, {"mountPath", kBucketMount}})}));
  Tree::List mounts;
  for (const Mount& mount : node_mounts(options))
    mounts.push_back(map_of({{"hostPath", mount.source}, {"mountPath", mount.destination}}));
  if (!mounts.empty()) values.set("volumes.hostMounts", Tree(mounts));
}

void set_placement(Tree& values, const LaunchOptions& options) {
  set_text(values, "queue", options.queue);
  set_text(values, "topology", options.topology);
  set_text(values, "serviceAccount", options.service_account);
  Tree::Map labels;
  for (size_t begin = 0; begin < options.node_selector.size();) {
    const size_t end = std::min(options.node_selector.find(',', begin), options.node_selector.size());
    const std::string label = options.node_selector.substr(begin, end - begin);
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("--node-selector {}: use LABEL=VALUE, and commas between several", options.node_selector);
    labels.push_back({label.substr(0, equals), Tree(label.substr(equals + 1))});
    begin = end + 1;
  }
  if (!labels.empty()) values.set("nodeSelector", Tree(labels));
}

void set_training(Tree& values, const Job& job, const LaunchOptions& options) {
  values.set("nodes", Tree(job.nodes));
  values.set("ranksPerNode", Tree(job.ranks_per_node));
  set_number(values, "gpusPerNode", options.gpus_per_node > 0 ? options.gpus_per_node : job.has_gpus ? job.ranks_per_node : 0);
  values.set("run.maxRestarts", Tree(options.max_restarts));
  std::vector<std::string> flags;
  for (const auto& [is_given, flag] : {std::pair{options.benchmark, "--benchmark"}, std::pair{options.mllog, "--mllog"},
                                       std::pair{options.trace_ops, "--trace-ops"}})
    if (is_given) flags.emplace_back(flag);
  if (!flags.empty()) values.set("run.options", text_list(flags));
  if (job.recipe_text.empty()) throw Failure("{} has no resolved recipe", job.name);
}

void set_task(Tree& values, const Job& job, const PodFolders& folders) {
  const auto in_pods = [&](std::vector<std::string> words) {
    for (std::string& word : words)
      if (is_below(word, folders.local.string())) word = folders.in_pod(word);
    return text_list(words);
  };
  set_number(values, "gpusPerNode", job.has_gpus ? job.ranks_per_node : 0);
  values.set("task.command", in_pods(job.command));
  Tree::List tasks;
  for (const auto& words : job.tasks) tasks.push_back(in_pods(words));
  if (!tasks.empty()) values.set("task.list", Tree(tasks));
  set_number(values, "task.atOnce", job.tasks_at_once);
}

}  // namespace

std::string PodFolders::in_pod(const fs::path& path) const {
  return (fs::path(results) / path.lexically_relative(local)).lexically_normal().string();
}

PodFolders pod_folders(const LaunchOptions& options) {
  if (options.results.find("://") != std::string::npos)
    throw UserError("results={}: on Kubernetes this is the folder of launches on this machine; give the bucket by --bucket",
                    options.results);
  PodFolders folders;
  folders.local = fs::absolute(options.results.empty() ? "runs" : options.results).lexically_normal();
  if (folders.local.filename().empty()) folders.local = folders.local.parent_path();
  folders.is_shared = !options.pvc.empty();
  folders.results = folders.is_shared ? parse_claim(options.pvc).path : kResults;
  if (!options.bucket.empty()) folders.copy = parse_bucket(options.bucket).copy;
  return folders;
}

std::string registry_image(const std::string& image) {
  if (image.empty())
    throw UserError("launch kubernetes needs --image IMAGE; make image and make image-push put one in a registry");
  std::string name = image.starts_with("docker://") ? image.substr(9) : image;
  std::ranges::replace(name, '#', '/');
  const bool is_file = name.starts_with('/') || name.starts_with('.') || name.ends_with(".sqsh") || name.ends_with(".tar") ||
                       name.ends_with(".sif");
  if (is_file)
    throw UserError("image={} is a file, and Kubernetes pulls images from a registry; make image-push puts one there", image);
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("._-/:@").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(name, is_allowed) || name.find("//") != std::string::npos || name.ends_with(':'))
    throw UserError("image={} is not the name of an image; use REGISTRY/NAME:TAG", image);
  return name;
}

bool is_jobset(const Job& job, const LaunchOptions& options) {
  return options.mode == "jobset" && job.stage == JobStage::training;
}

Tree helm_values(const Job& job, const std::vector<Job>& all, const LaunchOptions& options) {
  const PodFolders folders = pod_folders(options);
  require_data_in_pods(options);
  if (!options.mode.empty() && options.mode != "job" && options.mode != "jobset")
    throw UserError("mode={}: use job (an indexed Job) or jobset (a JobSet)", options.mode);
  Tree values{Tree::Map{}};
  values.set("mode", Tree(std::string(is_jobset(job, options) ? "jobset" : "job")));
  values.set("launchedBy", Tree(fmt::format("{}@{}", user_name(), host_name())));
  values.set("workload.image", Tree(registry_image(options.image)));
  values.set("run.folder", Tree(job.folder.lexically_relative(folders.local).string()));
  values.set("run.results", Tree(folders.results));
  set_text(values, "run.copyTo", folders.copy);
  // What an earlier job left in a bucket is not on the disks of new pods.
  const bool needs_earlier_files = options.resume || job.stage == JobStage::conversion || job.stage == JobStage::evaluation;
  if (!folders.copy.empty() && !folders.is_shared && needs_earlier_files) values.set("run.restore", Tree(true));
  if (job.stage == JobStage::training)
    set_training(values, job, options);
  else
    set_task(values, job, folders);
  set_network(values, job, options);
  set_volumes(values, options);
  set_placement(values, options);
  set_number(values, "backoffLimit", options.backoff_limit);
  std::vector<std::string> after;
  for (const std::string& name : job.after) {
    const auto earlier = std::ranges::find(all, name, &Job::name);
    after.push_back(earlier != all.end() && is_jobset(*earlier, options) ? "jobset/" + name : name);
  }
  if (!after.empty()) values.set("after", text_list(after));
  return values;
}

}  // namespace trireme
