// trireme launch slurm on a real Slurm cluster of this machine. Launches of one test run at the same time.
#include <gtest/gtest.h>

#include <csignal>
#include <regex>
#include <sstream>

#include "base/exit_status.h"
#include "cli/documented_commands.h"
#include "cli/mpi_run.h"
#include "comm/world.h"
#include "launch/slurm_cluster.h"
#include "support/skip.h"

namespace trireme {
namespace {

using std::chrono::seconds;

class SlurmRunSlow : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = SlurmCluster::missing(); !missing.empty()) SKIP_FOR(machine) << missing;
  }

  void start_cluster(int nodes) {
    cluster_ = std::make_unique<SlurmCluster>(nodes);
    cluster_->folder().write("small.yaml",
                             "extends: demo\n"
                             "trainer: {backend: cpu, max_steps: 400, threads: 1, precision: 32, val_check_interval: 1000}\n"
                             "exp_manager: {checkpoint_callback_params: {every_n_train_steps: 40}}\n"
                             "model: {micro_batch_size: 1, global_batch_size: 4, encoder_seq_length: 128, num_layers: 2,\n"
                             "  max_position_embeddings: 128, hidden_size: 128, ffn_hidden_size: 512, num_attention_heads: 4}\n");
  }

  fs::path run_folder(const std::string& name) const { return cluster_->work() / "runs" / name; }
  std::string log_of(const std::string& name) const { return text_of(run_folder(name) / "log.txt"); }
  static std::string text_of(const fs::path& path) { return fs::exists(path) ? read_file(path, 1 << 24) : ""; }

  void launch(const std::string& name, const std::string& arguments) {
    const ProgramResult result = cluster_->trireme("launch slurm small.yaml --name " + name + " " + arguments);
    ASSERT_EQ(result.status, 0) << result.output;
  }

  // The first job of a launch as --status --json shows it.
  nlohmann::json job_of(const std::string& name, size_t index = 0) const {
    const ProgramResult result = cluster_->trireme("launch --json --status " + name);
    return nlohmann::json::parse(result.output).at("jobs").at(index);
  }
  std::string id_of(const std::string& name) const { return job_of(name).at("id"); }

  bool wait_for_checkpoint(const std::string& name) const {
    return eventually([&] {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(run_folder(name) / "results/checkpoints", none))
        if (fs::exists(entry.path() / "manifest.json")) return true;
      return false;
    });
  }

  // Looks at a launch until it has ended, as a user does, which also ends Slurm's wait after a requeue. Returns the job.
  nlohmann::json wait_for_end(const std::string& name, seconds limit = seconds(150)) const {
    nlohmann::json job;
    const auto end = std::chrono::steady_clock::now() + limit;
    do {
      std::this_thread::sleep_for(milliseconds(300));
      job = job_of(name);
    } while ((job.at("phase") == "waiting" || job.at("phase") == "running" || job.at("phase") == "unknown") &&
             std::chrono::steady_clock::now() < end);
    return job;
  }

  // The nodes of the first attempt.
  std::vector<std::string> nodes_of(const std::string& name) const {
    std::smatch match;
    const std::string log = log_of(name);
    if (!std::regex_search(log, match, std::regex("attempt 1 on (\\S+)"))) return {"", ""};
    std::vector<std::string> nodes;
    std::istringstream words(match[1]);
    for (std::string node; std::getline(words, node, ',');) nodes.push_back(node);
    return nodes;
  }

  static std::vector<double> losses_of(const fs::path& run) {
    std::istringstream file(text_of(run / "dllogger/rank-0/dllogger.json"));
    std::vector<double> values;
    for (std::string line; std::getline(file, line);) {
      const auto data = nlohmann::json::parse(line.substr(5)).at("data");
      if (data.contains("reduced_train_loss")) values.push_back(data.at("reduced_train_loss"));
    }
    return values;
  }

  // The bytes of the weights and states after the last step.
  static std::string final_state(const fs::path& run, int step) {
    std::vector<fs::path> shards;
    for (const auto& entry : fs::directory_iterator(run / "checkpoints" / fmt::format("step-{:08}", step)))
      if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
    std::ranges::sort(shards);
    std::string bytes;
    for (const fs::path& shard : shards) bytes += text_of(shard);
    return bytes;
  }

  // The scores of the one evaluation in a folder.
  static std::string scores_in(const fs::path& folder) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
      if (entry.path().filename().string().starts_with("results_"))
        return nlohmann::json::parse(text_of(entry.path())).at("results").dump(1);
    return "";
  }

  // The same run on this machine without Slurm.
  fs::path train_here(const std::string& name, int ranks, int steps) {
    const fs::path folder = cluster_->work() / name;
    const ProgramResult result = cluster_->run(processes_that_meet(
        ranks, fmt::format("train small.yaml trainer.num_nodes={} trainer.max_steps={} exp_manager.explicit_log_dir={}", ranks,
                           steps, folder.string())));
    EXPECT_EQ(result.status, 0) << result.output;
    return folder;
  }

  std::unique_ptr<SlurmCluster> cluster_;
};

TEST_F(SlurmRunSlow, TrainsAsThisMachineDoes) {
  start_cluster(4);
  std::vector<std::string> ways = {"none"};
  if (is_built_with_mpi() && cluster_->run("srun --mpi=list").output.find("pmix") != std::string::npos) ways.emplace_back("pmix");
  for (const std::string& way : ways)
    for (const int nodes : {2, 4})
      launch(fmt::format("{}{}", way, nodes), fmt::format("--nodes {} --mpi {} trainer.max_steps=60", nodes, way));
  for (const int nodes : {2, 4}) {
    const fs::path here = train_here(fmt::format("here{}", nodes), nodes, 60);
    ASSERT_EQ(losses_of(here).size(), 60U);
    for (const std::string& way : ways) {
      const std::string name = fmt::format("{}{}", way, nodes);
      EXPECT_EQ(wait_for_end(name).at("phase"), "done") << log_of(name);
      EXPECT_EQ(losses_of(run_folder(name) / "results"), losses_of(here)) << name;
      EXPECT_EQ(final_state(run_folder(name) / "results", 60), final_state(here, 60)) << name;
    }
  }
  // The log of a rank, and the merged one.
  EXPECT_TRUE(contains(cluster_->trireme("launch --logs none2 --rank 0").output, "step  60/60"));
  EXPECT_TRUE(contains(cluster_->trireme("launch --logs none2").output, "slurm: attempt 1 on n"));
  EXPECT_TRUE(contains(text_of(run_folder("none2") / "none2_hydra.yaml"), "num_nodes: 2"));
}

TEST_F(SlurmRunSlow, OutlivesLostNodesAndRanks) {
  start_cluster(10);
  launch("spare", "--nodes 2 --spares 1 --exclusive");
  launch("first", "--nodes 2 --spares 1 --exclusive");  // loses the node of its supervisor
  launch("other", "--nodes 2 --exclusive");             // loses a node and has no spare
  launch("killed", "--nodes 1 --ranks 2 --exclusive");
  for (const char* name : {"spare", "first", "other", "killed"}) ASSERT_TRUE(wait_for_checkpoint(name)) << name << log_of(name);
  std::smatch process;
  const std::string log = unwrapped(log_of("killed"));
  ASSERT_TRUE(std::regex_search(log, process, std::regex("rank 1: .*?process (\\d+)"))) << log;
  kill(static_cast<pid_t>(std::stol(process[1])), SIGKILL);
  const std::string lost = nodes_of("spare").at(1);
  cluster_->fail(fmt::format("{} {} {}", lost, nodes_of("first").at(0), nodes_of("other").at(1)));

  const fs::path here2 = train_here("here2", 2, 400);
  for (const char* name : {"spare", "first", "other", "killed"}) {
    EXPECT_EQ(wait_for_end(name).at("phase"), "done") << name << "\n" << log_of(name);
    EXPECT_TRUE(contains(log_of(name), "slurm: attempt 2 on n")) << name;
    EXPECT_TRUE(contains(log_of(name), "resumed from step")) << name;
    EXPECT_EQ(final_state(run_folder(name) / "results", 400), final_state(here2, 400)) << name;
  }
  EXPECT_TRUE(contains(log_of("spare"), "lost " + lost)) << log_of("spare");
  EXPECT_TRUE(contains(log_of("spare"), "takes over"));
  EXPECT_TRUE(contains(log_of("spare"), "slurm: recovered on spare n")) << log_of("spare");
  EXPECT_TRUE(contains(log_of("killed"), "slurm: recovered on the same nodes in ")) << log_of("killed");
  EXPECT_FALSE(contains(log_of("spare"), "of Slurm")) << "it went through the queue again";
  EXPECT_TRUE(contains(log_of("first"), "restart 1 of Slurm"));
  EXPECT_TRUE(contains(log_of("other"), "restart 1 of Slurm"));
  EXPECT_FALSE(contains(log_of("killed"), "of Slurm"));
}

TEST_F(SlurmRunSlow, EndsAsItShould) {
  start_cluster(4);
  launch("limit", "--nodes 1");
  launch("stopped", "--nodes 1 trainer.max_steps=100000");
  launch("cancelled", "--nodes 1 trainer.max_steps=100000");
  // A rank that fails at once, every time.
  launch("broken", "--nodes 1 --srun-arg /bin/false");
  ASSERT_TRUE(wait_for_checkpoint("limit") && wait_for_checkpoint("stopped") && wait_for_checkpoint("cancelled"));
  // What Slurm sends before the time limit, which would take minutes.
  EXPECT_EQ(cluster_->run("scancel --batch --signal=USR1 " + id_of("limit")).status, 0);
  EXPECT_TRUE(contains(cluster_->trireme("launch --stop stopped").output, "stopped stopped"));
  EXPECT_EQ(cluster_->run("scancel " + id_of("cancelled")).status, 0);

  const nlohmann::json limit = wait_for_end("limit");
  EXPECT_EQ(limit.at("phase"), "done") << log_of("limit");
  EXPECT_TRUE(contains(log_of("limit"), "saved before the time limit; back to the queue"));
  EXPECT_TRUE(contains(log_of("limit"), "resumed from step"));
  for (const char* name : {"stopped", "cancelled"}) {
    const nlohmann::json job = wait_for_end(name);
    EXPECT_EQ(job.at("phase"), "stopped") << log_of(name);
    EXPECT_TRUE(contains(job.at("detail"), "cancelled"));
  }
  const nlohmann::json broken = wait_for_end("broken");
  EXPECT_EQ(broken.at("phase"), "failed");
  EXPECT_EQ(broken.at("exit_status"), kDoNotRetry);
  EXPECT_TRUE(contains(broken.at("detail"), "3 attempts without a new checkpoint")) << log_of("broken");
  EXPECT_EQ(cluster_->run("squeue --noheader").output, "");

  // A name in use, and a launch that is continued.
  launch("used", "--nodes 1 trainer.max_steps=100000");
  EXPECT_TRUE(contains(cluster_->trireme("launch slurm small.yaml --nodes 1 --name used").output, "used is in use"));
  cluster_->trireme("launch --stop used");
  const int64_t saved = job_of("stopped").at("checkpoint_step");
  const ProgramResult resumed = cluster_->trireme(
      fmt::format("launch slurm small.yaml --nodes 1 --name stopped --resume --wait trainer.max_steps={}", saved + 10));
  EXPECT_EQ(resumed.status, 0);
  EXPECT_TRUE(contains(resumed.output, "resumed from step")) << resumed.output;
}

TEST_F(SlurmRunSlow, StagesFollowEachOther) {
  start_cluster(2);
  const TemporaryFolder& folder = cluster_->folder();
  for (int file = 0; file < 3; ++file) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += fmt::format("{{\"text\": \"document {} of a small pile\"}}\n", i);
    folder.write(fmt::format("pile/{}.jsonl", file), text);
  }
  ASSERT_EQ(cluster_->trireme("data train-tokenizer " TRIREME_SOURCE_DIR "/README.md --vocab-size 512 --output tokens").status,
            0);
  const std::string recipe = fmt::format(
      "download_url: {0}/pile\nfile_name: \"{{0}}.jsonl\"\nfile_numbers: \"0-2\"\nformat: megatron\noutput_name: my\n"
      "download_tokenizer_url: {0}/tokens/tokenizer.json\nrm_downloaded: true\n",
      cluster_->work().string());
  folder.write("pile.yaml", recipe);
  std::string lost = recipe;
  lost.replace(lost.find("0-2"), 3, "1-3");  // there is no file 3
  folder.write("lost.yaml", lost);
  const std::string settings = fmt::format(
      "'model.data.data_prefix=[{0}/data/my_1_text_document]' model.data.data_impl=mmap model.data.splits_string=\"'90,10,0'\" "
      "model.vocab_size=512 trainer.max_steps=5 --stages data_preparation,training,conversion --nodes 1 --data data --wait",
      cluster_->work().string());
  const ProgramResult done =
      cluster_->trireme("launch slurm small.yaml --name chain --data-recipe pile.yaml --tasks-at-once 2 " + settings);
  EXPECT_EQ(done.status, 0) << done.output;
  for (int file = 0; file < 3; ++file)
    EXPECT_TRUE(fs::exists(cluster_->work() / fmt::format("data/my_{}_text_document.bin", file))) << file;
  EXPECT_EQ(job_of("chain", 0).at("detail"), "3 of 3 tasks done");
  EXPECT_TRUE(fs::exists(run_folder("chain") / "hf/config.json"));

  const ProgramResult failed = cluster_->trireme("launch slurm small.yaml --name lost --data-recipe lost.yaml " + settings);
  EXPECT_NE(failed.status, 0);
  EXPECT_EQ(job_of("lost", 0).at("phase"), "failed");
  EXPECT_TRUE(contains(job_of("lost", 0).at("detail"), "task 2: "));
  EXPECT_FALSE(contains(text_of(run_folder("lost") / "data_preparation/task-00002.log"), "trying again"))
      << "an error of the user";
  EXPECT_TRUE(contains(job_of("lost", 1).at("detail"), "not started: lost-data failed"));
  EXPECT_TRUE(contains(job_of("lost", 2).at("detail"), "not started: lost stopped"));
  const ProgramResult broken = cluster_->trireme(
      "launch slurm small.yaml --name broken --nodes 1 --stages data_preparation --data-recipe pile.yaml --data data --wait "
      "--srun-arg /bin/false");
  EXPECT_EQ(broken.status, kFailed) << broken.output;
  EXPECT_TRUE(contains(text_of(run_folder("broken") / "data_preparation/task-00000.log"), "trying again"));
  EXPECT_TRUE(eventually([&] { return cluster_->run("squeue --noheader").output.empty(); }));
}

// The newest checkpoint is scored on a node, with the ranks of the training, as this machine scores it.
TEST_F(SlurmRunSlow, EvaluationScoresWhatWasTrained) {
  start_cluster(2);
  constexpr const char* kTasks = "--tasks piqa,boolq --data " TRIREME_SOURCE_DIR "/tests/evaluate/data";
  const ProgramResult done = cluster_->trireme(fmt::format(
      "launch slurm small.yaml --name scored --nodes 2 --ranks 2 --stages training,evaluation --wait trainer.max_steps=10 {}",
      kTasks));
  EXPECT_EQ(done.status, 0) << done.output << log_of("scored");
  EXPECT_EQ(job_of("scored", 1).at("phase"), "done");
  const ProgramResult here = cluster_->trireme(fmt::format("evaluate runs/scored/results --output here {}", kTasks));
  EXPECT_EQ(here.status, 0) << here.output;
  EXPECT_NE(scores_in(cluster_->work() / "here"), "");
  EXPECT_EQ(scores_in(run_folder("scored") / "evaluation/scores"), scores_in(cluster_->work() / "here"));

  const ProgramResult failed = cluster_->trireme(
      "launch slurm small.yaml --name unscored --nodes 1 --stages training,evaluation --wait trainer.max_steps=2 --tasks piqa "
      "--data .");
  EXPECT_EQ(failed.status, kUserError) << failed.output;
  EXPECT_EQ(job_of("unscored", 0).at("phase"), "done");
  EXPECT_TRUE(contains(job_of("unscored", 1).at("detail"), "dev.jsonl, which is missing; get it with")) << failed.output;
}

// Noise may have other nodes left out, too: one of three suffices.
TEST_F(SlurmRunSlow, NodesThatFailTheChecksAreLeftOut) {
  start_cluster(4);
  ASSERT_TRUE(cluster_->limit_shm("n1", "10m"));
  const ProgramResult done = cluster_->trireme(
      "launch slurm small.yaml --name checked --nodes 1 --spares 3 --exclusive --mpi none --validate --wait trainer.max_steps=5");
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "slurm: n1 is left out: /dev/shm: 10.0 MiB, expected at least 60.0 MiB"));
  EXPECT_TRUE(contains(done.output, "trireme validate --quick first (--validate; nodes that fail are left out"));
  EXPECT_NE(nodes_of("checked").front(), "");
  EXPECT_NE(nodes_of("checked").front(), "n1");
  EXPECT_TRUE(fs::exists(run_folder("checked") / "validation/validation.html"));

  const ProgramResult few = cluster_->trireme(
      "launch slurm small.yaml --name few --nodes 4 --exclusive --mpi none --validate --wait trainer.max_steps=5");
  EXPECT_EQ(few.status, kFailed) << few.output;
  EXPECT_TRUE(contains(few.output, " of 4 nodes are good: n1"));
  EXPECT_FALSE(fs::exists(run_folder("few") / "results")) << "nothing may be trained";
}

TEST_F(SlurmRunSlow, CommandsOfThePageWork) {
  start_cluster(3);
  cluster_->folder().write("my.yaml", "extends: small.yaml\ntrainer: {max_steps: 4}\n");
  fs::create_directory(cluster_->work() / "build");
  fs::create_symlink(TRIREME_BINARY, cluster_->work() / "build/trireme");
  const auto commands = commands_of_page(fs::path(TRIREME_SOURCE_DIR) / "docs/launch-slurm.md", "docs/launch-slurm.md");
  EXPECT_GE(commands.size(), 8U);
  for (const DocumentedCommand& command : commands) {
    const ProgramResult result = cluster_->run("sh " + cluster_->folder().write("command.sh", command.text + "\n"));
    EXPECT_EQ(result.status, 0) << command.place << ": " << command.text << "\n" << result.output;
  }
  EXPECT_TRUE(fs::exists(run_folder("written") / "written_submission.sh"));
}

TEST_F(SlurmRunSlow, RefusesBeforeAnythingIsSubmitted) {
  start_cluster(2);
  const auto refused = [&](const std::string& arguments) {
    const ProgramResult result = cluster_->trireme("launch slurm small.yaml --name bad " + arguments);
    EXPECT_EQ(result.status, kUserError) << arguments << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    return result.output;
  };
  EXPECT_TRUE(contains(refused("--nodes 1 --partition man"), "partition=man: cluster test has main; did you mean main?"));
  EXPECT_TRUE(contains(refused("--nodes 2 --spares 1"), "nodes=2 and spares=1: partition main has 2 nodes"));
  EXPECT_TRUE(contains(refused("--nodes 1 --time 2-00"), "partition main allows 1-00:00:00"));
  EXPECT_TRUE(contains(refused("--nodes 1 --gpus-per-node 5"), "have 4 GPUs"));
  EXPECT_TRUE(contains(refused("--nodes 1 --image ubuntu"), "pyxis is not installed"));
  EXPECT_TRUE(contains(refused("--nodes 1 --account a --mpi pmi3"), "mpi=pmi3"));
  EXPECT_TRUE(contains(refused("--nodes 1 model.num_layers=x"), "model.num_layers"));
  EXPECT_FALSE(fs::exists(run_folder("bad")));

  // Environment variables as scripts for AWS set them.
  const ProgramResult aws =
      cluster_->run("MODEL_SIZE=126m NODES=2 MAX_STEPS=40 JOB_SUFFIX=-nccl " TRIREME_BINARY " launch slurm --ranks 4 --dry-run");
  EXPECT_EQ(aws.status, 0) << aws.output;
  for (const char* line : {"launch  gpt3-126m2-nccl on slurm", "max_steps: 40", "--nodes=2", "NODES in the environment"})
    EXPECT_TRUE(contains(aws.output, line));

  // Without a scheduler that answers, or without Slurm.
  const auto launch_without = [&](const char* what, const std::string& arguments) {
    return cluster_->run(
        fmt::format("timeout 100 env {} {} launch slurm small.yaml --nodes 4 --name none {}", what, TRIREME_BINARY, arguments));
  };
  cluster_->run(
      "cp $(dirname $SLURM_CONF)/*.conf .; "
      "sed -i s/SlurmctldPort=.*/SlurmctldPort=1/ slurm.conf");
  const ProgramResult silent = launch_without("SLURM_CONF=$PWD/slurm.conf", "");
  EXPECT_EQ(silent.status, kUserError) << silent.output;
  EXPECT_TRUE(contains(silent.output, "Slurm does not answer: Unable to contact slurm controller"));
  const ProgramResult none = launch_without("PATH=/nowhere", "");
  EXPECT_EQ(none.status, kUserError) << none.output;
  EXPECT_TRUE(contains(none.output, "sbatch is not on PATH"));
  EXPECT_FALSE(fs::exists(run_folder("none")));
  EXPECT_TRUE(contains(launch_without("PATH=/nowhere", "--dry-run").output, "checks left out"));
  EXPECT_EQ(launch_without("PATH=/nowhere", "--no-submit").status, 0);
  EXPECT_TRUE(fs::exists(run_folder("none") / "none_submission.sh"));
  EXPECT_EQ(cluster_->run("squeue --noheader --states=all").output, "");
}

}  // namespace
}  // namespace trireme
