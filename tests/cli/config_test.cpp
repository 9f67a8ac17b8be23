// trireme config as its users meet it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_program.h"
#include "config/settings_fields.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr const char* kShipped = "TRIREME_RECIPES=" TRIREME_SOURCE_DIR "/recipes";

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ConfigCommand, PrintsTheResolvedRecipe) {
  const auto printed = run_program("config gpt3/126m model.num_layers=24", kShipped);
  EXPECT_EQ(printed.status, 0) << printed.output;
  EXPECT_TRUE(contains(printed.output, "\n  num_layers: 24\n"));
  EXPECT_TRUE(contains(printed.output, "\n  ffn_hidden_size: 3072\n"));
}

// What is printed is a recipe that resolves to the same.
TEST(ConfigCommand, PrintsARecipe) {
  const TemporaryFolder folder;
  const std::string printed = run_program("config gpt3/400m_improved trainer.max_steps=7", kShipped).output;
  const std::string again = run_program("config " + folder.write("again.yaml", printed)).output;
  EXPECT_EQ(again, printed);
}

TEST(ConfigCommand, TakesTheFormsOfHydra) {
  const TemporaryFolder folder;
  folder.write("conf/config.yaml", "defaults: [_self_, {training: gpt3/tiny}]\ndata_dir: ???\n");
  folder.write("conf/training/gpt3/tiny.yaml", "trainer: {max_steps: 5}\nmodel: {vocab_size: 64}\n");
  folder.write("plain.yaml", "trainer: {max_steps: 6}\nmodel: {vocab_size: 64}\n");
  const std::string path = folder.path().string();
  const auto max_steps = [](const std::string& arguments) {
    const auto result = run_program("config --json " + arguments, kShipped);
    if (result.status != 0) return nlohmann::json(result.output);
    return nlohmann::json::parse(result.output)["settings"]["trainer"]["max_steps"];
  };
  EXPECT_EQ(max_steps("training=gpt3/126m training.trainer.max_steps=200"), 200);
  EXPECT_EQ(max_steps("--config-path " + path + "/conf"), 5);
  EXPECT_EQ(max_steps("--config-path " + path + "/conf training=gpt3/tiny training.trainer.max_steps=8"), 8);
  EXPECT_EQ(max_steps("--config-path=" + path + " --config-name=plain"), 6);
  EXPECT_EQ(max_steps("--config-path=" + path + " --config-name=plain.yaml trainer.max_steps=9 ++model.seed=3"), 9);
  EXPECT_EQ(max_steps(path + "/conf"), 5);
}

TEST(ConfigCommand, SaysWhatARunNeeds) {
  const auto printed = run_program("config gpt3/126m trainer.devices=8 trainer.logger=false", kShipped);
  EXPECT_EQ(printed.status, 0);
  EXPECT_TRUE(contains(printed.output, "without effect here: trainer.logger\n"));
  EXPECT_TRUE(contains(printed.output, "to run it here: trainer.num_nodes=1 with trainer.devices=8: needs 8 ranks"));
  const auto json = nlohmann::json::parse(run_program("config --json gpt3/126m trainer.devices=8", kShipped).output);
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["data_parallel_size"], 8);
  EXPECT_TRUE(contains(json["needs"], "needs 8 ranks"));
  EXPECT_TRUE(json["without_effect"].empty());
}

TEST(ConfigCommand, ListsEverySetting) {
  const auto json = nlohmann::json::parse(run_program("config --keys --json").output);
  ASSERT_EQ(json.size(), settings_fields().size());
  EXPECT_EQ(json[2]["key"], "trainer.num_nodes");
  EXPECT_EQ(json[2]["type"], "integer");
  EXPECT_EQ(json[2]["default"], 1);
  EXPECT_EQ(json[2]["accepts"], "an integer from 1 to 1048576");
  EXPECT_EQ(json[2]["help"], "machines");
}

TEST(ConfigCommand, MistakesAreOneLineAndStatus2) {
  const auto wrong = run_program("config gpt3/126m model.num_layer=24", kShipped);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.output, "trireme: model.num_layer: unknown key; did you mean model.num_layers?\n");
}

// The committed page is the one the program prints: `trireme config --markdown > docs/settings.md` brings it up to date.
TEST(ConfigCommand, ThePageOfSettingsIsUpToDate) {
  EXPECT_EQ(file_text(TRIREME_SOURCE_DIR "/docs/settings.md"), run_program("config --markdown").output);
}

}  // namespace
}  // namespace trireme
