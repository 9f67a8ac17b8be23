#include "launch/launch_options.h"

#include <array>

namespace trireme {
namespace {

constexpr uint8_t kLocal = 1, kSlurm = 2, kKubernetes = 4, kAll = 7;
using O = LaunchOptions;

constexpr std::array kOptions = {
    LaunchOption{"name", &O::name, kAll, "NAME", "the name of the run; without it made from recipe and nodes: gpt3-175b16"},
    LaunchOption{"nodes", &O::nodes, kAll, "N", "nodes; without it trainer.num_nodes"},
    LaunchOption{"ranks", &O::ranks, kAll, "N", "ranks per node; without it trainer.devices"},
    LaunchOption{"gpu", &O::gpu, kAll, "KIND",
                 "the GPU of the target, to check memory against before anything starts: h100, a100-40"},
    LaunchOption{"network", &O::network, kAll, "PROFILE", "tcpxo, tcpx, efa, ib, azure-ib, roce, tcp, or a YAML file like them"},
    LaunchOption{"image", &O::image, kAll, "IMAGE", "the container image that the run starts in"},
    LaunchOption{"mount", &O::mounts, kAll, "SOURCE[:DESTINATION]", "a folder to mount in the container"},
    LaunchOption{"env", &O::env, kAll, "K[=V]", "an environment variable of every rank; K alone takes its value from here"},
    LaunchOption{"results", &O::results, kAll, "FOLDER", "where run folders are written"},
    LaunchOption{"data", &O::data, kAll, "FOLDER", "the folder of datasets, mounted in containers"},
    LaunchOption{"max-restarts", &O::max_restarts, kAll, "N", "give up after N attempts without a new checkpoint"},
    LaunchOption{"validate", &O::validate, kAll, "", "check the nodes first, and train only on those that are good"},
    LaunchOption{"nsys", &O::nsys, kAll, "", "profile the ranks of model.nsys_profile with nsys"},
    LaunchOption{"benchmark", &O::benchmark, kAll, "", "measure the speed, as trireme train --benchmark does"},
    LaunchOption{"resume", &O::resume, kAll, "", "continue the launch of this name from its newest checkpoint"},
    LaunchOption{"mllog", &O::mllog, kAll, "", "also write the log lines of MLPerf"},
    LaunchOption{"trace-ops", &O::trace_ops, kAll, "", "trace a few steps op by op on every rank"},
    LaunchOption{"stages", &O::stages, kAll, "LIST", "data_preparation, training, conversion, evaluation; without it training"},
    LaunchOption{"data-recipe", &O::data_recipe, kAll, "NAME", "the dataset that data_preparation makes: data/pile"},
    LaunchOption{"files", &O::files, kAll, "RANGES", "the files of the dataset, one task each: 0-29"},
    LaunchOption{"tasks", &O::tasks, kAll, "LIST", "of evaluation: lambada,hellaswag,..."},
    LaunchOption{"sweep", &O::sweep, kAll, "KEY=A,B,C", "one run per value; given several times, one run per combination"},
    LaunchOption{"before", &O::before, kAll, "COMMAND", "a shell command to run before the job"},
    LaunchOption{"after", &O::after, kAll, "COMMAND", "a shell command to run after the job, also after a failure"},

    LaunchOption{"container", &O::container, kLocal, "RUNTIME", "docker, podman, ctr or enroot"},
    LaunchOption{"map-by", &O::map_by, kLocal, "ppr:N:UNIT[:pe=K]", "N ranks per numa, socket or node, K cores each"},
    LaunchOption{"bind-to", &O::bind_to, kLocal, "core|hwthread|none", "what ranks are bound to"},
    LaunchOption{"report-bindings", &O::report_bindings, kLocal, "", "print the cores of every rank"},
    LaunchOption{"numa-mode", &O::numa_mode, kLocal, "MODE",
                 "all, single, single_unique, unique_interleaved or unique_contiguous"},
    LaunchOption{"numa-scope", &O::numa_scope, kLocal, "node|socket", "what a rank's cores are taken from"},
    LaunchOption{"numa-cores", &O::numa_cores, kLocal, "all_logical|single_logical", "hardware threads of a core to use"},
    LaunchOption{"numa-balanced", &O::numa_balanced, kLocal, "", "the same number of cores for every rank"},
    LaunchOption{"numa-min-cores", &O::numa_min_cores, kLocal, "N", "cores of a rank, at least"},
    LaunchOption{"numa-max-cores", &O::numa_max_cores, kLocal, "N", "cores of a rank, at most"},
    LaunchOption{"gpus", &O::gpus, kLocal, "LIST", "the GPUs to use, as in 2,3,4,5: local rank k uses the k-th"},

    LaunchOption{"partition", &O::partition, kSlurm, "NAME", "Slurm's partition"},
    LaunchOption{"account", &O::account, kSlurm, "NAME", "Slurm's account"},
    LaunchOption{"qos", &O::qos, kSlurm, "NAME", "Slurm's quality of service"},
    LaunchOption{"time", &O::time, kSlurm, "D-HH:MM:SS", "the time limit; without it run.time_limit"},
    LaunchOption{"nodelist", &O::nodelist, kSlurm, "LIST", "the nodes to use"},
    LaunchOption{"exclude", &O::exclude, kSlurm, "LIST", "nodes not to use"},
    LaunchOption{"constraint", &O::constraint, kSlurm, "FEATURES", "features of the nodes"},
    LaunchOption{"reservation", &O::reservation, kSlurm, "NAME", "a reservation"},
    LaunchOption{"dependency", &O::dependency, kSlurm, "SPEC", "other jobs to wait for: singleton, afterok:1234"},
    LaunchOption{"mem", &O::mem, kSlurm, "SIZE", "memory per node; 0: all of it"},
    LaunchOption{"job-name-prefix", &O::job_name_prefix, kSlurm, "TEXT", "the beginning of the job's name in the queue"},
    LaunchOption{"spares", &O::spares, kSlurm, "N", "more nodes in the same allocation, to replace those that fail"},
    LaunchOption{"gpus-per-node", &O::gpus_per_node, kSlurm | kKubernetes, "N",
                 "GPUs per node to ask for; without it one per rank"},
    LaunchOption{"exclusive", &O::exclusive, kSlurm, "", "no other jobs on the nodes"},
    LaunchOption{"requeue", &O::requeue, kSlurm, "", "let Slurm start the job again after it lost a node or reached its limit"},
    LaunchOption{"signal-before", &O::signal_before, kSlurm, "SECONDS", "save and requeue this long before the time limit"},
    LaunchOption{"tasks-at-once", &O::tasks_at_once, kAll, "N", "tasks of an array that run at the same time; 0: all"},
    LaunchOption{"mpi", &O::mpi, kSlurm, "pmix|none", "how srun starts ranks; without it what the site has"},
    LaunchOption{"srun-arg", &O::srun_args, kSlurm, "ARG", "one more argument of srun"},
    LaunchOption{"sbatch-arg", &O::sbatch_args, kSlurm, "ARG", "one more argument of sbatch"},

    LaunchOption{"namespace", &O::namespace_name, kKubernetes, "NAME", "the namespace"},
    LaunchOption{"context", &O::context, kKubernetes, "NAME", "the context of the kubeconfig"},
    LaunchOption{"mode", &O::mode, kKubernetes, "job|jobset", "an indexed Job, or a JobSet"},
    LaunchOption{"queue", &O::queue, kKubernetes, "NAME", "a queue of Kueue"},
    LaunchOption{"topology", &O::topology, kKubernetes, "LABEL", "the node label that pods should share"},
    LaunchOption{"chart", &O::chart, kKubernetes, "FOLDER", "another chart than the one shipped"},
    LaunchOption{"pvc", &O::pvc, kKubernetes, "CLAIM[:PATH]", "a volume claim for data and results"},
    LaunchOption{"bucket", &O::bucket, kKubernetes, "NAME", "a bucket for results"},
    LaunchOption{"ssd", &O::ssd, kKubernetes, "PATH", "where the nodes' local SSDs are mounted"},
    LaunchOption{"service-account", &O::service_account, kKubernetes, "NAME", "the service account of the pods"},
    LaunchOption{"shm", &O::shm, kKubernetes, "SIZE", "the size of /dev/shm: 250Gi"},
    LaunchOption{"node-selector", &O::node_selector, kKubernetes, "LABEL=VALUE", "the nodes to use"},
    LaunchOption{"backoff-limit", &O::backoff_limit, kKubernetes, "N", "pods that may fail before the job does"},
    LaunchOption{"values", &O::values, kKubernetes, "FILE", "a values file for Helm"},
    LaunchOption{"set", &O::set, kKubernetes, "K=V", "a value for Helm"},
};

}  // namespace

std::string name_of(TargetKind kind) {
  constexpr const char* kNames[] = {"local", "slurm", "kubernetes"};
  return kNames[static_cast<size_t>(kind)];
}

std::span<const LaunchOption> launch_option_table() { return kOptions; }

bool is_for(const LaunchOption& option, TargetKind kind) { return (option.targets >> static_cast<int>(kind) & 1) != 0; }

}  // namespace trireme
