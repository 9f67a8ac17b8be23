// The options of a launch: one struct and one table for all targets. The command line, the launch file and the site file are read
// and written by this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

enum class TargetKind : uint8_t { local, slurm, kubernetes };
std::string name_of(TargetKind kind);

using Texts = std::vector<std::string>;

struct LaunchOptions {
  // All targets.
  std::string name;          // of the run; empty: made from recipe and nodes, as in gpt3-175b16
  int64_t nodes = 0;         // 0: trainer.num_nodes
  int64_t ranks = 0;         // per node; 0: trainer.devices
  std::string gpu;           // the kind of GPU of the target, to check memory against: h100, a100-40
  std::string network;       // a network profile: tcpxo, efa, ib, ..., or a YAML file
  std::string image;         // of a container
  Texts mounts;              // source:destination, or one path for both
  Texts env;                 // K=V, or K for its value here
  std::string results;       // folder, PVC or bucket for run folders; empty: runs
  std::string data;          // folder of datasets, mounted and made known as data_dir
  int64_t max_restarts = 3;  // attempts without a new checkpoint until the launch gives up with status 93
  bool validate = false;     // check the nodes first
  bool nsys = false;         // wrap the chosen ranks in nsys
  bool benchmark = false, resume = false, mllog = false, trace_ops = false;  // options of trireme train
  Texts stages;             // data_preparation, training, conversion, evaluation; empty: training
  std::string data_recipe;  // what data_preparation makes: data/pile
  std::string files;        // of the data recipe: 0-29
  Texts tasks;              // of evaluation
  Texts sweep;              // model.micro_batch_size=1,2,4
  Texts before, after;      // shell commands around the job

  // This machine.
  std::string container;  // docker, podman, ctr or enroot
  std::string map_by;     // ppr:4:numa:pe=8
  std::string bind_to;    // core, hwthread or none
  bool report_bindings = false;
  std::string numa_mode;   // all, single, single_unique, unique_interleaved or unique_contiguous
  std::string numa_scope;  // node or socket
  std::string numa_cores;  // all_logical or single_logical
  bool numa_balanced = true;
  int64_t numa_min_cores = 1, numa_max_cores = 8;
  std::string gpus;  // 2,3,4,5: local rank k uses the k-th

  // Slurm.
  std::string partition, account, qos, time, nodelist, exclude, constraint, reservation, dependency, mem, job_name_prefix;
  int64_t spares = 0;         // nodes beyond those of the run, to take over
  int64_t gpus_per_node = 0;  // 0: the ranks of a node
  bool exclusive = false, requeue = true;
  int64_t signal_before = 300;  // seconds before the time limit at which the run saves and requeues
  int64_t tasks_at_once = 0;    // of an array
  std::string mpi;              // pmix or none; empty: what the site has
  Texts srun_args, sbatch_args;

  // Kubernetes.
  std::string namespace_name, context, mode, queue, topology, chart, pvc, bucket, ssd, service_account, shm, node_selector;
  Texts values, set;  // Helm's
  int64_t backoff_limit = 0;
};

struct LaunchOption {
  using Member =
      std::variant<std::string LaunchOptions::*, int64_t LaunchOptions::*, bool LaunchOptions::*, Texts LaunchOptions::*>;
  std::string_view name;  // --map-by on the command line, map_by in files
  Member member;
  uint8_t targets = 0;     // bits of TargetKind that use it
  std::string_view value;  // of --help: SECONDS
  std::string_view help;
};

// Every option of the struct, in the order of --help.
std::span<const LaunchOption> launch_option_table();
bool is_for(const LaunchOption& option, TargetKind kind);

}  // namespace trireme
