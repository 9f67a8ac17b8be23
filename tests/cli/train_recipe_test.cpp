// What a recipe asks of a run, and what a run says before its first step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

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

// Names of files outside of the recipe are bytes: they work, with checkpoints, logs and reports.
TEST_F(TrainRecipeTest, FoldersAndRecipesWithAnyNameWork) {
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
  for (const char* command : {"metrics run --json", "report run", "generate run --tokens 2 --prompt-tokens 1"})
    EXPECT_EQ(in_home(command).status, 0) << command << in_home(command).output;
}

}  // namespace
}  // namespace trireme
