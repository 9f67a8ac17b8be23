#include "launch/slurm/batch_script.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/process.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLeastSaveSeconds = 20;

// A word of a #SBATCH line, which sbatch reads with quotes much like a shell's.
std::string directive_word(const std::string& value) {
  if (value.find_first_of(" \t\"'\\#") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// Slurm replaces %j and the like in the names of logs.
std::string log_pattern(const fs::path& path) {
  std::string text;
  for (const char c : path.string()) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

void require_one_line(std::string_view option, const std::string& value) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' '; };
  if (std::ranges::any_of(value, is_control)) throw UserError("{}: \"{}\" has more than one line", option, value);
}

class BatchScript {
 public:
  BatchScript(const Job& job, const LaunchOptions& options, const SlurmRun& run, const std::string& program)
      : job_(job), options_(options), run_(run), program_(program), folder_(slurm_folder(job.stage, job.folder)) {}

  std::string text() {
    text_ = fmt::format("#!/bin/bash\n# {}: {}. Written by trireme launch.\n", job_.name, name_of(job_.stage));
    add_request();
    add_limits();
    add_logs();
    for (const std::string& argument : options_.sbatch_args) {
      require_one_line("sbatch_args", argument);
      text_ += "#SBATCH " + argument + "\n";
    }
    add_environment();
    add_task_words();
    add_step();
    add_start();
    return std::move(text_);
  }

 private:
  bool is_training() const { return job_.stage == JobStage::training; }
  bool is_array() const { return !job_.tasks.empty(); }
  bool is_benchmark() const { return std::ranges::find(job_.command, "--benchmark") != job_.command.end(); }
  int64_t spares() const { return is_training() ? options_.spares : 0; }

  void comment(const std::string& line) { text_ += "\n# " + line + "\n"; }

  void directive(const std::string& name, const std::string& value) {
    if (value.empty()) return;
    require_one_line(name, value);
    text_ += fmt::format("#SBATCH --{}={}\n", name, directive_word(value));
  }
  void directive(const std::string& name, int64_t value) {
    if (value > 0) text_ += fmt::format("#SBATCH --{}={}\n", name, value);
  }
  void directive(const std::string& name) { text_ += "#SBATCH --" + name + "\n"; }

  void add_request() {
    if (spares() > 0)
      comment(fmt::format("{} nodes for the run and {} spare, which replace{} nodes that fail.", job_.nodes, spares(),
                          spares() == 1 ? "s" : ""));
    else
      comment("The nodes.");
    directive("job-name", options_.job_name_prefix + job_.name);
    directive("partition", options_.partition);
    directive("account", options_.account);
    directive("qos", options_.qos);
    directive("nodes", job_.nodes + spares());
    directive("ntasks-per-node", job_.ranks_per_node);
    directive("cpus-per-task", run_.cpus_per_task);
    directive("gpus-per-node", run_.gpus_per_node);
    if (run_.exclusive) directive("exclusive");
    directive("mem", options_.mem);
    directive("constraint", options_.constraint);
    if (is_training()) directive("nodelist", options_.nodelist);
    directive("exclude", options_.exclude);
    directive("reservation", options_.reservation);
    if (job_.after.empty()) directive("dependency", options_.dependency);
    if (!is_array()) return;
    const std::string at_once = job_.tasks_at_once > 0 ? fmt::format("%{}", job_.tasks_at_once) : "";
    directive("array", fmt::format("0-{}{}", job_.tasks.size() - 1, at_once));
  }

  void add_limits() {
    const bool may_requeue = run_.requeue && !is_benchmark();
    comment(!may_requeue    ? "Slurm must not start the job again."
            : is_training() ? "Slurm may start the job again. It then continues from its newest checkpoint."
                            : "Slurm may start the job again.");
    directive("time", options_.time);
    directive(may_requeue ? "requeue" : "no-requeue");
    if (spares() > 0) directive("no-kill");
    if (!is_training() || run_.signal_before == 0) return;
    text_ += fmt::format("# {} s before the time limit this script is told; the ranks save, and the job queues again.\n",
                         run_.signal_before);
    directive("signal", fmt::format("B:USR1@{}", run_.signal_before));
  }

  void add_logs() {
    comment(is_array() ? "A log of each task; log.txt beside them says which have started and ended."
                       : "All attempts, also those after a requeue, append to one log. Ranks have logs of their own beside it.");
    directive("output", log_pattern(folder_ / (is_array() ? "task-" : "log.txt")) + (is_array() ? "%5a.log" : ""));
    directive("open-mode", "append");
  }

  void add_environment() {
    if (job_.environment.empty()) return;
    comment("Variables of every rank.");
    for (const EnvironmentVariable& variable : job_.environment)
      text_ += fmt::format("export {}={}\n", variable.name, shell_word(variable.value));
  }

  void add_task_words() {
    if (!is_array()) return;
    comment("What this task of the array does.");
    text_ += "case $SLURM_ARRAY_TASK_ID in\n";
    for (size_t i = 0; i < job_.tasks.size(); ++i) text_ += fmt::format("  {}) task=({}) ;;\n", i, words(job_.tasks[i], " "));
    text_ += "esac\n";
  }

  static std::string words(const std::vector<std::string>& list, std::string_view separator) {
    std::vector<std::string> quoted;
    for (const std::string& word : list) quoted.push_back(shell_word(word));
    return fmt::format("{}", fmt::join(quoted, separator));
  }

  void add_step() {
    comment("One attempt: srun starts the ranks, and a rank that fails ends them all.");
    std::vector<std::string> step = {"srun", fmt::format("--nodes={}", job_.nodes),
                                     fmt::format("--ntasks={}", job_.nodes * job_.ranks_per_node),
                                     fmt::format("--ntasks-per-node={}", job_.ranks_per_node)};
    if (run_.cpus_per_task > 0) step.push_back(fmt::format("--cpus-per-task={}", run_.cpus_per_task));
    step.insert(step.end(), {"--kill-on-bad-exit=1", "--label", "--mpi=" + run_.mpi});
    if (spares() > 0) step.emplace_back("--overlap");
    add_container(step);
    step.insert(step.end(), options_.srun_args.begin(), options_.srun_args.end());
    srun_words_ = step.size();
    text_ += fmt::format("step=(\n  {}\n  {}{}\n)\n", words(step, "\n  "), words(job_.command, "\n  "),
                         is_array() ? "\n  \"${task[@]}\"" : "");
  }

  void add_container(std::vector<std::string>& step) const {
    if (!job_.container) return;
    std::vector<std::string> mounts, names;
    for (const Mount& mount : job_.container->mounts) {
      for (const std::string* path : {&mount.source, &mount.destination})
        if (path->find_first_of(",:") != std::string::npos)
          throw UserError("mount {}: pyxis takes no path with a comma or a colon", *path);
      if (const std::string text = mount.source + ":" + mount.destination; std::ranges::find(mounts, text) == mounts.end())
        mounts.push_back(text);
    }
    for (const EnvironmentVariable& variable : job_.environment) names.push_back(variable.name);
    step.push_back("--container-image=" + run_.image);
    step.push_back(fmt::format("--container-mounts={}", fmt::join(mounts, ",")));
    step.emplace_back("--no-container-mount-home");
    step.push_back("--container-workdir=" + job_.folder.string());
    if (run_.overrides_image_environment && !names.empty())
      step.push_back(fmt::format("--container-env={}", fmt::join(names, ",")));
  }

  // A program that the nodes do not have cannot supervise; the attempt is then all there is.
  void add_start() {
    std::vector<std::string> supervisor = {program_, "launch", "slurm-supervise", "--folder", folder_.string()};
    const auto give = [&](const char* name, const std::string& value) {
      supervisor.emplace_back(name);
      supervisor.push_back(value);
    };
    if (is_training()) {
      give("--run-folder", job_.run_folder.string());
      give("--nodes", std::to_string(job_.nodes));
      give("--max-restarts", std::to_string(is_benchmark() ? 0 : options_.max_restarts));
      if (spares() > 0) supervisor.emplace_back("--spares");
      if (run_.requeue && !is_benchmark()) supervisor.emplace_back("--requeue");
      if (options_.resume) supervisor.emplace_back("--resume");
      if (job_.checks_nodes) give("--check-nodes", std::to_string(srun_words_));
      if (run_.signal_before > 0)
        give("--save-seconds",
             std::to_string(std::max(run_.signal_before * 4 / 5, std::min(run_.signal_before, kLeastSaveSeconds))));
    }
    comment(is_training()
                ? "The supervisor starts attempts until the run is done: after a failure with --resume, on spare nodes if\n"
                  "# some were lost. It gives up after attempts without a new checkpoint."
                : "The supervisor starts the attempt and keeps its result.");
    text_ += fmt::format("supervisor=({}{})\n", words(supervisor, " "), is_array() ? " --task \"$SLURM_ARRAY_TASK_ID\"" : "");
    text_ += fmt::format("if {} --version > /dev/null; then exec \"${{supervisor[@]}}\" -- \"${{step[@]}}\"; fi\n",
                         shell_word(program_));
    text_ += fmt::format("echo {} >&2\n",
                         shell_word(fmt::format("warning: {} does not run on this node; a failure ends the job", program_)));
    text_ += "exec \"${step[@]}\"\n";
  }

  const Job& job_;
  const LaunchOptions& options_;
  const SlurmRun& run_;
  const std::string& program_;
  fs::path folder_;
  std::string text_;
  size_t srun_words_ = 0;  // of the step, before the command of the ranks
};

}  // namespace

fs::path slurm_folder(JobStage stage, const fs::path& job_folder) {
  return stage == JobStage::training ? job_folder : job_folder / name_of(stage);
}

fs::path batch_script_path(const Job& job) { return slurm_folder(job.stage, job.folder) / (job.name + "_submission.sh"); }

std::string batch_script(const Job& job, const LaunchOptions& options, const SlurmRun& run, const std::string& program) {
  return BatchScript(job, options, run, program).text();
}

}  // namespace trireme
