// What a recipe asks of a run, and what a run says before its first step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel =
    "model:\n"
    "  micro_batch_size: 2\n  global_batch_size: 4\n  encoder_seq_length: 16\n  max_position_embeddings: 16\n"
    "  num_layers: 1\n  hidden_size: 32\n  num_attention_heads: 4\n  vocab_size: 100\n";

// A tiny model on mock data, in a folder of its own; programs are started there.
class TrainRecipeTest : public testing::Test {
 protected:
  TrainRecipeTest() {
    folder_.write("small.yaml", std::string("trainer: {precision: 32, max_steps: 2, val_check_interval: null}\n") + kModel);
  }

  ProgramResult run(const std::string& arguments) const {
    return run_shell(fmt::format("cd '{}' && {} {}", folder_.path().string(), TRIREME_BINARY, arguments));
  }

  TemporaryFolder folder_;
};

// Recipes are stored in checkpoints and logs, which hold UTF-8: other bytes are answered before the first step.
TEST_F(TrainRecipeTest, BytesThatAreNotUtf8AreRefusedBeforeTheFirstStep) {
  folder_.write("latin.yaml", std::string("extends: small\nexp_manager: {name: \"caf\xe9\"}\n"));
  folder_.write("surrogate.yaml", std::string("extends: small\nexp_manager: {name: \"\xed\xa0\x80\"}\n"));
  folder_.write("nul.yaml", std::string("extends: small\nexp_manager: {name: \"a\\0b\"}\n"));
  folder_.write("env.yaml", "extends: small\nexp_manager: {name: \"${oc.env:LATIN}\"}\n");
  const struct {
    std::string arguments, words;
  } cases[] = {
      {"train latin.yaml", "latin.yaml:2: the byte 0xe9 is not UTF-8"},
      {"train surrogate.yaml", "surrogate.yaml:2: the byte 0xed is not UTF-8"},
      {"train nul.yaml", "nul.yaml:2: a text cannot contain"},
      {"train small.yaml 'exp_manager.explicit_log_dir=caf\xe9'", "the byte 0xe9 is not UTF-8"},
      {"train small.yaml model.data.data_impl=text 'model.data.data_prefix=[caf\xe9.txt]'", "the byte 0xe9 is not UTF-8"},
  };
  for (const auto& test : cases) {
    const auto result = run(test.arguments);
    EXPECT_EQ(result.status, 2) << test.arguments << "\n" << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, test.words)) << result.output;
  }
  const auto environment =
      run_shell(fmt::format("cd '{}' && LATIN='caf\xe9' {} train env.yaml", folder_.path().string(), TRIREME_BINARY));
  EXPECT_EQ(environment.status, 2) << environment.output;
  EXPECT_TRUE(contains(environment.output, "the environment variable LATIN: the byte 0xe9 is not UTF-8")) << environment.output;
}

using TrainRecipeSlow = TrainRecipeTest;

// Names of files outside of the recipe are bytes: they work, with checkpoints, logs and reports.
TEST_F(TrainRecipeSlow, FoldersAndRecipesWithAnyNameWork) {
  const std::string home = "caf\xe9";
  folder_.write(home + "/\xff.yaml",
                std::string("trainer: {precision: 32, max_steps: 2}\nexp_manager: {explicit_log_dir: run}\n") + kModel);
  const auto in_home = [&](const std::string& arguments) {
    return run_shell(fmt::format("cd '{}' && {} {}", (folder_ / home).string(), TRIREME_BINARY, arguments));
  };
  const auto trained = in_home("train \xff.yaml --trace-ops");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(fs::exists(folder_ / home / "run/checkpoints/step-00000002/manifest.json")) << trained.output;
  const auto resumed = in_home("train \xff.yaml --resume trainer.max_steps=3");
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 2")) << resumed.output;
  for (const char* command :
       {"metrics run --json", "report run", "generate run --tokens 2 --prompt-tokens 1", "export run --output hf\xe9",
        "import hf\xe9 --output ../imported", "config ../imported/recipe.yaml"})
    EXPECT_EQ(in_home(command).status, 0) << command << in_home(command).output;
}

// Data that is named and would not be read is answered before anything starts, wherever the name stands.
TEST_F(TrainRecipeTest, DataThatIsNamedAndNotReadIsAnError) {
  folder_.write("mine.txt", "a text of one's own\n");
  folder_.write("mock.yaml", "extends: small\nmodel: {data: {data_impl: mock}}\n");
  folder_.write("named.yaml", "extends: mock\nmodel: {data: {data_prefix: [mine.txt]}}\n");
  folder_.write("both.yaml", "extends: small\nmodel: {data: {data_impl: mock, data_prefix: [1, my_text_document]}}\n");
  for (const char* arguments :
       {"train small.yaml model.data.data_prefix=[mine.txt]", "train mock.yaml model.data.data_prefix=[mine.txt]",
        "train mock.yaml model.data.data_impl=mock model.data.data_prefix=[mine.txt]", "train named.yaml",
        "train small.yaml model.data.mock_dataset=true model.data.data_prefix=[mine.txt]",
        "train small.yaml model.data.data_impl=text model.data.data_prefix=[mine.txt] --benchmark"}) {
    const auto result = run(std::string(arguments) + " --dry-run");
    EXPECT_EQ(result.status, 2) << arguments << "\n" << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, "model.data.data_prefix")) << result.output;
  }
  // Mock data may be asked for in place of a recipe's files, and NeMo has recipes that name both; the run says what it reads.
  for (const char* arguments : {"train named.yaml model.data.data_impl=mock", "train both.yaml"}) {
    const auto result = run(std::string(arguments) + " --dry-run --verbose");
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_TRUE(contains(result.output, "mock data is not read from files: model.data.data_prefix")) << result.output;
  }
}

// A tree of the NeMo launcher with a tiny model.
class LauncherTreeTest : public TrainRecipeTest {
 protected:
  LauncherTreeTest() { folder_.write("conf/training/tiny.yaml", std::string("trainer: {max_steps: 1}\n") + kModel); }

  void write_config(const std::string& settings) const {
    folder_.write("conf/config.yaml", "defaults:\n  - _self_\n  - cluster: bcm\n  - training: tiny\n" + settings);
    folder_.write("conf/cluster/bcm.yaml", "partition: main\n");
  }
};

TEST_F(LauncherTreeTest, DoesNotTrainWhenTheLauncherWouldNot) {
  for (const char* settings : {"run_training: False\n", "stages: [conversion]\n", "stages: []\n"}) {
    write_config(settings);
    for (const char* recipe : {"conf", "conf/training/tiny.yaml", "--config-path conf"}) {
      const auto result = run(fmt::format("train {}", recipe));
      EXPECT_EQ(result.status, 2) << settings << result.output;
      EXPECT_EQ(lines_of(result.output), 1) << result.output;
      EXPECT_TRUE(contains(result.output, "the recipe asks for no training; use ")) << result.output;
      const auto printed = run(fmt::format("config {}", recipe));
      EXPECT_EQ(printed.status, 0) << printed.output;
      EXPECT_TRUE(contains(printed.output, "to run it here: ")) << printed.output;
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_EQ(run("train conf stages=[training] --dry-run").status, 0);
  EXPECT_EQ(run("train small.yaml run_training=false").status, 2);
}

TEST_F(LauncherTreeTest, SaysInOneLineWhichLauncherSettingsAreNotFollowed) {
  write_config(
      "stages: [data_preparation, training]\ncontainer_mounts: [null]\nenv_vars: {NCCL_DEBUG: INFO, NCCL_PROTO: null}\n"
      "cluster_type: bcm\nnuma_mapping: {enable: False}\n");
  const auto result = run("train conf --dry-run container_mounts=[/data]");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(unwrapped(result.output),
                       "\nlauncher settings not followed here: stages data_preparation; cluster bcm; container_mounts; "
                       "env_vars NCCL_DEBUG\n"))
      << result.output;
  write_config("run_training: True\nrun_data_preparation: False\nrun_conversion: True\n");
  const auto switches = run("config conf");
  EXPECT_TRUE(contains(switches.output, "\nlauncher settings not followed here: stages conversion; cluster bcm\n"))
      << switches.output;
}

// The line is short; --verbose names each key once, by reason, and none that acts.
TEST_F(TrainRecipeTest, KeysWithoutEffectAreCountedAndListedOnDemand) {
  folder_.write("nemo.yaml",
                "extends: small\nname: tiny\nrun: {name: r, time_limit: \"1:00\"}\n"
                "trainer: {logger: false, accelerator: gpu}\n"
                "exp_manager: {name: \"${name}_${run.name}\", create_wandb_logger: true}\n"
                "model: {ub_tp_comm_overlap: true, data: {seq_length: \"${model.encoder_seq_length}\"}}\n");
  const auto brief = run("train nemo.yaml --dry-run");
  ASSERT_EQ(brief.status, 0) << brief.output;
  EXPECT_TRUE(contains(brief.output, "\nwithout effect here: 5 keys (--verbose lists them)\n")) << brief.output;
  const auto listed = run("config nemo.yaml --verbose");
  ASSERT_EQ(listed.status, 0) << listed.output;
  EXPECT_TRUE(contains(listed.output,
                       "\nwithout effect here: 5 keys\n"
                       "  of the Python trainer: trainer.logger, trainer.accelerator\n"
                       "  of the NeMo launcher: run.time_limit\n"
                       "  logs go to TensorBoard, DLLogger and CSV files: exp_manager.create_wandb_logger\n"
                       "  there is no tensor parallelism: model.ub_tp_comm_overlap\n"))
      << listed.output;
}

// What the data has is not what the run takes of it.
TEST_F(TrainRecipeTest, TheDataLineTellsWhatThereIsFromWhatIsTaken) {
  std::string bytes(2 * 1000, '\0');  // 1000 tokens of uint16
  folder_.write("flat/train.bin", bytes);
  folder_.write("text.txt", std::string(999, 'x'));  // and the token that ends it
  const auto line = [&](const std::string& data) {
    const auto result = run("train small.yaml --dry-run trainer.max_steps=2 model.vocab_size=300 model.data.data_impl=" + data);
    EXPECT_EQ(result.status, 0) << result.output;
    const std::string output = unwrapped(result.output);
    const size_t begin = output.find("data    ");
    return output.substr(begin, output.find('\n', begin) - begin);
  };
  EXPECT_EQ(line("flat model.data.data_prefix=[flat]"),
            "data    flat: 61 training samples in the data; the run takes 8, 0.131 epochs; 2 threads ahead of the step");
  EXPECT_EQ(line("text model.data.data_prefix=[text.txt] model.data.splits_string=1,0,0 model.data.num_workers=1"),
            "data    text: 62 training samples in the data; the run takes 8, 0.129 epochs; 1 thread ahead of the step");
  EXPECT_EQ(line("mock"), "data    mock: made up; the run takes 8 samples; 2 threads ahead of the step");
}

// A recipe for other machines is answered here: memory by kind, the largest rank, and whether it fits.
TEST_F(TrainRecipeTest, DryRunAnswersForMachinesThatAreNotHere) {
  for (const char* arguments : {"train gpt3/175b --dry-run", "config gpt3/175b", "train gpt3/5b --dry-run --gpu a100-40",
                                "train gpt3/20b --dry-run trainer.num_nodes=1 trainer.devices=1 model.global_batch_size=16 "
                                "model.tensor_model_parallel_size=1 model.pipeline_model_parallel_size=1 "
                                "model.virtual_pipeline_model_parallel_size=null model.sequence_parallel=false",
                                "train small.yaml --dry-run trainer.backend=cuda",
                                "train small.yaml --dry-run trainer.precision=bf16 model.fp8=true model.vocab_size=128"}) {
    const auto result = run(arguments);
    EXPECT_EQ(result.status, 0) << arguments << "\n" << result.output;
    EXPECT_TRUE(contains(result.output, "gradients ")) << result.output;
    EXPECT_TRUE(contains(result.output, "\ngpu     ")) << result.output;
  }
  const auto large = run("train gpt3/175b --dry-run --gpu a100-40");
  EXPECT_TRUE(contains(large.output, "gpu     a100-40 has 40.0 GiB: does not fit, ")) << large.output;
  const auto json = nlohmann::json::parse(run("config gpt3/175b --json 2>/dev/null").output);
  EXPECT_EQ(json["memory"]["gpu"], "h100-80");
  EXPECT_EQ(json["memory"]["rank"], 0);
  EXPECT_GT(json["memory"]["bytes"]["activations"], 0);
  const auto unknown = run("config gpt3/5b --gpu h1000");
  EXPECT_EQ(unknown.status, 2) << unknown.output;
}

}  // namespace
}  // namespace trireme
