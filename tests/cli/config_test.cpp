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
  const std::string printed = run_program("config demo trainer.max_steps=7 2>/dev/null", kShipped).output;
  const std::string again = run_program("config " + folder.write("again.yaml", printed) + " 2>/dev/null").output;
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
  const auto printed = run_program("config gpt3/126m trainer.num_nodes=1 trainer.logger=false", kShipped);
  EXPECT_EQ(printed.status, 0);
  EXPECT_TRUE(contains(printed.output, "without effect here: 2 keys (--verbose lists them)\n"));
  EXPECT_TRUE(contains(printed.output, "to run it here: trainer.num_nodes=1 with trainer.devices=8: needs 8 ranks"));
  const auto json = nlohmann::json::parse(run_program("config --json gpt3/126m trainer.num_nodes=1", kShipped).output);
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_EQ(json["data_parallel_size"], 8);
  EXPECT_TRUE(contains(json["needs"], "needs 8 ranks"));
  EXPECT_EQ(json["without_effect"], nlohmann::json::array({"run.time_limit"}));
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

// Also one that no run could use: what is wrong with it comes last.
TEST(ConfigCommand, PrintsARecipeThatDoesNotFitTogether) {
  const auto printed = run_program("config gpt3/175b model.num_layers=24", kShipped);
  EXPECT_EQ(printed.status, 2);
  EXPECT_TRUE(contains(printed.output, "\n  num_layers: 24\n"));
  EXPECT_TRUE(contains(printed.output, "\ntrireme: model.virtual_pipeline_model_parallel_size=6 does not divide the 3 layers"));
  const auto json =
      run_program("config --json gpt3/126m trainer.num_nodes=1 trainer.devices=1 model.tensor_model_parallel_size=5", kShipped);
  EXPECT_EQ(json.status, 2);
  EXPECT_TRUE(contains(json.output, "model.tensor_model_parallel_size=5 does not divide model.num_attention_heads=12"));
  EXPECT_EQ(lines_of(json.output), 1);
}

// A recipe made for other ranks than it gives is printed; how many it needs is an obstacle, not a mistake in the recipe.
TEST(ConfigCommand, PrintsARecipeForOtherRanks) {
  const std::string one_node = "config gpt3/175b trainer.num_nodes=1 ";
  const auto printed = run_program(one_node, kShipped);
  EXPECT_EQ(printed.status, 0) << printed.output;
  EXPECT_TRUE(contains(printed.output, "to run it here: trainer.num_nodes=1 with trainer.devices=8 makes 8 ranks"));
  const auto json = nlohmann::json::parse(run_program(one_node + "--json", kShipped).output);
  EXPECT_EQ(json["ranks"], 8);
  EXPECT_TRUE(json["data_parallel_size"].is_null());
  EXPECT_TRUE(json["memory"].is_null());
  EXPECT_TRUE(contains(json["needs"], "needs a multiple of 32"));
}

// The vocabulary of text is its tokenizer's, bytes if none is named.
TEST(ConfigCommand, SaysWhatMemoryARankTakes) {
  const TemporaryFolder folder;
  const std::string recipe = folder.write("r.yaml",
                                          "model: {hidden_size: 64, num_attention_heads: 4, encoder_seq_length: 32, data: "
                                          "{data_impl: text, data_prefix: [a.txt]}}\n");
  const auto memory = nlohmann::json::parse(run_program("config --json --gpu a100-40 " + recipe).output)["memory"];
  EXPECT_EQ(memory["gpu"], "a100-40");
  EXPECT_EQ(memory["fits"], true);
  int64_t total = 0;
  for (const auto& [kind, bytes] : memory["bytes"].items()) total += bytes.get<int64_t>();
  EXPECT_EQ(memory["total"], total);
  EXPECT_EQ(memory["left"], memory["gpu_memory"].get<int64_t>() - total);
}

TEST(ConfigCommand, MistakesAreOneLineAndStatus2) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string() + "/";
  folder.write("ping.yaml", "extends: pong\n");
  folder.write("pong.yaml", "defaults: [ping]\n");
  folder.write("alias.yaml",
               "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
               "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
               "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n");
  folder.write("deep.yaml", "a: " + std::string(1000, '[') + std::string(1000, ']') + "\n");
  folder.write("large.yaml", "a: " + std::string(1 << 21, 'x') + "\n");
  struct Case {
    std::string arguments, line;
  };
  const Case cases[] = {
      {"gpt3/126m model.num_layer=24", "model.num_layer: unknown key; did you mean model.num_layers?"},
      {"gpt3/126", "no such recipe in "},
      {"gpt3/126m model.num_layers", "model.num_layers: a value is missing; write model.num_layers=VALUE"},
      {"gpt3/126m model.num_layers=x", "model.num_layers=x: expected an integer from 1 to 10000"},
      {"gpt3/126m trainer.precision=16-true", "trainer.precision=16-true: fp16 without masters is not supported; use 16-mixed"},
      {"gpt3/126m +model.fsdp_sharding_strategy=hybrid", "model.fsdp_sharding_strategy=hybrid: expected full or grad"},
      {"gpt3/126m +model.num_moe_experts=8", "model.num_moe_experts=8: mixture of experts is not supported; remove it"},
      {"gpt3/126m 'model.seed=${model.sed}'", "model.seed=${model.sed}: the recipe has no model.sed"},
      {"gpt3/126m '~model.nothing'", "~model.nothing: the recipe has no model.nothing to remove"},
      {"gpt3/126m batch_size=5 micro_batch_size=125", "they are swapped: use batch_size=125 micro_batch_size=5"},
      {path + "absent.yaml", "absent.yaml:1: cannot be opened: No such file or directory"},
      {path, "a folder, not a recipe file"},
      {path + "ping.yaml", "ping.yaml:1: is built on itself: "},
      {path + "alias.yaml", "alias.yaml:5: more than 20000 values"},
      {path + "deep.yaml", "deep.yaml:1: more than 64 levels of nesting"},
      {path + "large.yaml", "large.yaml:1: larger than 1048576 bytes, too large for a recipe"},
      {"gpt3/126m --no-such-option", "see trireme config --help"},
  };
  for (const Case& c : cases) {
    const auto wrong = run_program("config " + c.arguments, kShipped);
    EXPECT_EQ(wrong.status, 2) << c.arguments;
    EXPECT_TRUE(wrong.output.starts_with("trireme: ")) << wrong.output;
    EXPECT_TRUE(contains(wrong.output, c.line));
    EXPECT_EQ(wrong.output.find('\n'), wrong.output.size() - 1) << wrong.output;
  }
}

// The committed page is the one the program prints: `trireme config --markdown > docs/settings.md` brings it up to date.
TEST(ConfigCommand, ThePageOfSettingsIsUpToDate) {
  EXPECT_EQ(file_text(TRIREME_SOURCE_DIR "/docs/settings.md"), run_program("config --markdown").output);
}

constexpr const char* kPipeline =
    "config demo --schedule trainer.devices=2 model.pipeline_model_parallel_size=2 model.num_layers=4 model.global_batch_size=6 "
    "model.micro_batch_size=2 ";

TEST(ConfigCommand, DrawsTheSchedule) {
  const auto drawn = run_program(kPipeline, kShipped);
  EXPECT_EQ(drawn.status, 0);
  EXPECT_TRUE(contains(drawn.output,
                       "1f1b: 2 pipeline ranks, 3 micro-batches per step, 2 layers per rank\n"
                       "bubble 33.3% of the work (closed form 33.3%), 6 messages, 12 units of time\n"
                       "stage 0  f0 f1 ......b0--- f2 b1--- ...b2--- \n"
                       "stage 1  ...f0 b0--- f1 b1--- f2 b2--- ......\n"))
      << drawn.output;
}

TEST(ConfigCommand, DrawsUnevenStages) {
  const auto drawn = run_program(std::string(kPipeline) + "model.num_layers_in_last_pipeline_stage=1", kShipped);
  EXPECT_EQ(drawn.status, 0);
  EXPECT_TRUE(contains(drawn.output, "layers 3, 1\n")) << drawn.output;
}

TEST(ConfigCommand, PrintsTheScheduleAsJson) {
  const auto printed =
      run_program(std::string(kPipeline) + "model.pipeline_schedule=zb-h1 model.overlap_p2p_comm=true --json", kShipped);
  ASSERT_EQ(printed.status, 0) << printed.output;
  const auto json = nlohmann::json::parse(printed.output);
  EXPECT_EQ(json["schedule"], "zb-h1");
  EXPECT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][0].size(), 9u);  // forward, and two halves of backward, of three micro-batches
  EXPECT_DOUBLE_EQ(json["bubble"].get<double>(), json["bubble_closed_form"].get<double>());
  EXPECT_EQ(json["stages"][1][0],
            nlohmann::json({{"action", "forward"}, {"micro_batch", 0}, {"chunk", 0}, {"begin", 1.0}, {"end", 2.0}}));
}

}  // namespace
}  // namespace trireme
