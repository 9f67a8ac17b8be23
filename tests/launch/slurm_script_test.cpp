// The sbatch files: compared with those in tests/golden/slurm, checked by bash, and with values that need quotes.
// TRIREME_WRITE_GOLDEN=1 rewrites them; review what git then shows.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "cli/run_program.h"
#include "launch/slurm/batch_script.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void expect_golden_script(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(TRIREME_SOURCE_DIR) / "tests/golden/slurm" / name;
  if (std::getenv("TRIREME_WRITE_GOLDEN") != nullptr) {
    create_folders(path.parent_path());
    atomic_write(path, bytes_of(text));
  }
  EXPECT_EQ(text, read_file(path, 1 << 20)) << "TRIREME_WRITE_GOLDEN=1 rewrites " << path;
  EXPECT_EQ(run_shell("bash -n " + path.string()).output, "");
}

Job training() {
  Job job;
  job.name = "gpt3-175b16";
  job.command = {"/apps/trireme", "train", "/results/gpt3-175b16/gpt3-175b16_hydra.yaml"};
  job.nodes = 16;
  job.ranks_per_node = 8;
  job.has_gpus = true;
  job.environment = {{"NCCL_DEBUG", "WARN"}, {"NOTE", "it's 5 o'clock $HOME `x` \"y\""}};
  job.folder = "/results/gpt3-175b16";
  job.run_folder = "/results/gpt3-175b16/results";
  return job;
}

SlurmRun gpu_run() {
  SlurmRun run;
  run.gpus_per_node = 8;
  run.cpus_per_task = 12;
  run.signal_before = 300;
  return run;
}

TEST(SlurmScript, OfATrainingWithSpareNodes) {
  LaunchOptions options;
  options.partition = "gpu";
  options.account = "team";
  options.qos = "high";
  options.time = "1-00:00:00";
  options.exclude = "n[7-9]";
  options.constraint = "h100&ib";
  options.reservation = "night";
  options.dependency = "singleton";
  options.mem = "0";
  options.job_name_prefix = "team-";
  options.spares = 2;
  SlurmRun run = gpu_run();
  run.exclusive = true;
  expect_golden_script("training.sh", batch_script(training(), options, run, "/apps/trireme"));
}

TEST(SlurmScript, OfATrainingInAContainer) {
  Job job = training();
  job.command = {"trireme", "train", "gpt3/175b", "++trainer.num_nodes=16", "model.data.data_prefix=[0.5, a b]"};
  job.container = Container{.runtime = "pyxis",
                            .image = "/images/trireme.sqsh",
                            .mounts = {{"/data", "/data"}, {"/results/gpt3-175b16", "/results/gpt3-175b16"}, {"/data", "/data"}}};
  LaunchOptions options;
  options.requeue = false;
  options.srun_args = {"--no-container-entrypoint"};
  options.sbatch_args = {"--comment=\"two words\""};
  SlurmRun run = gpu_run();
  run.image = "/images/trireme.sqsh";
  run.mpi = "pmix";
  run.requeue = false;
  run.overrides_image_environment = true;
  expect_golden_script("container.sh", batch_script(job, options, run, "/apps/trireme"));
}

TEST(SlurmScript, OfDataPreparationIsAnArray) {
  Job job;
  job.name = "pile-data";
  job.stage = JobStage::data_preparation;
  job.command = {"/apps/trireme", "data", "run", "data/pile", "--output", "/data/pile"};
  for (int file = 0; file < 3; ++file) job.tasks.push_back({"--files", std::to_string(file)});
  job.tasks_at_once = 2;
  job.folder = "/results/pile";
  SlurmRun run;
  run.cpus_per_task = 96;
  expect_golden_script("array.sh", batch_script(job, LaunchOptions(), run, "/apps/trireme"));
}

// The supervisor is told how many words of the step are srun's.
TEST(SlurmScript, NodesAreCheckedWithTheOptionsOfTheAttempt) {
  Job job = training();
  EXPECT_EQ(batch_script(job, LaunchOptions(), gpu_run(), "/apps/trireme").find("--check-nodes"), std::string::npos);
  job.checks_nodes = true;
  LaunchOptions options;
  options.srun_args = {"--cpu-bind=cores", "--verbose"};
  const std::string text = batch_script(job, options, gpu_run(), "/apps/trireme");
  const TemporaryFolder folder;
  const size_t begin = text.find("step=("), end = text.find("if /apps");
  const std::string script = folder.write(
      "s.sh", text.substr(begin, end - begin) +
                  "\nfor i in ${!supervisor[@]}; do [ ${supervisor[i]} = --check-nodes ] && at=${supervisor[i+1]}; done\n"
                  "echo ${step[at-1]} ${step[at]} ${step[at+1]}\n");
  EXPECT_EQ(run_shell("bash " + script).output, "--verbose /apps/trireme train\n");
}

TEST(SlurmScript, ABenchmarkIsNotStartedAgain) {
  Job job = training();
  job.command.emplace_back("--benchmark");
  const std::string text = batch_script(job, LaunchOptions(), gpu_run(), "/apps/trireme");
  EXPECT_TRUE(contains(text, "#SBATCH --no-requeue\n"));
  EXPECT_TRUE(contains(text, "--max-restarts 0"));
}

TEST(SlurmScript, ValuesOfTheEnvironmentArriveAsTheyAre) {
  const std::string text = batch_script(training(), LaunchOptions(), gpu_run(), "/apps/trireme");
  const TemporaryFolder folder;
  const size_t begin = text.find("export "), end = text.find("\n\n", begin);
  const std::string script = folder.write("s.sh", text.substr(begin, end - begin) + "\nprintf %s \"$NOTE\"\n");
  EXPECT_EQ(run_shell("bash " + script).output, "it's 5 o'clock $HOME `x` \"y\"");
}

TEST(SlurmScript, OddPathsAreQuoted) {
  Job job = training();
  job.folder = "/results/50% of \"it\"";
  const std::string text = batch_script(job, LaunchOptions(), gpu_run(), "/apps/trireme");
  EXPECT_TRUE(contains(text, "#SBATCH --output=\"/results/50%% of \\\"it\\\"/log.txt\"\n"));
  EXPECT_TRUE(contains(text, "--folder '/results/50% of \"it\"'"));
}

TEST(SlurmScript, RefusesValuesThatWouldAddLines) {
  LaunchOptions options;
  options.partition = "gpu\n#SBATCH --uid=0";
  EXPECT_TRUE(contains(message_of<UserError>([&] { batch_script(training(), options, gpu_run(), "/t"); }), "more than one line"));
  Job job = training();
  job.container = Container{.runtime = "pyxis", .image = "x", .mounts = {{"/a,b", "/a"}}};
  EXPECT_TRUE(contains(message_of<UserError>([&] { batch_script(job, LaunchOptions(), gpu_run(), "/t"); }), "/a,b"));
}

}  // namespace
}  // namespace trireme
