// trireme recipes, where the program finds them, and what a user is told who trains one that is made for another place.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Within 2 GiB of address space, so that an answer which allocates first would not come. Sanitizers need more than that.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr const char* kLittleMemory = "";
#else
constexpr const char* kLittleMemory = "ulimit -v 2097152; ";
#endif

nlohmann::json recipes_as_json(const std::string& name = "") {
  const ProgramResult result = run_program("recipes --json " + name);
  EXPECT_EQ(result.status, 0) << result.output;
  return nlohmann::json::parse(result.output);
}

TEST(RecipesTest, JsonHasWhatIsPromised) {
  const nlohmann::json list = recipes_as_json();
  ASSERT_TRUE(list.is_array());
  for (const nlohmann::json& recipe : list) {
    EXPECT_FALSE(recipe.contains("error")) << recipe.dump();
    for (const char* key : {"name", "parameters", "layers", "width", "heads", "gpus", "layout", "flops_per_sample"})
      EXPECT_TRUE(recipe.contains(key)) << recipe.at("name") << " " << key;
  }
  const nlohmann::json large = recipes_as_json("gpt3/175b").at(0);
  EXPECT_EQ(large.at("parameters").get<int64_t>(), 174'609'555'456);
  EXPECT_EQ(large.at("gpus").get<int64_t>(), 1024);
  EXPECT_EQ(large.at("layout").at("virtual_pipeline").get<int64_t>(), 6);
  EXPECT_EQ(large.at("layout").at("data").get<int64_t>(), 32);
  EXPECT_EQ(large.at("micro_batches").get<int64_t>(), 64);
}

TEST(RecipesTest, ListsByGroupAndSize) {
  const std::string list = run_program("recipes").output;
  const auto position = [&](const char* name) { return list.find(std::string("\n") + name + " "); };
  EXPECT_LT(position("demo"), position("gpt3/126m"));
  EXPECT_LT(position("gpt3/126m"), position("gpt3/400m_improved"));
  EXPECT_LT(position("gpt3/40b"), position("gpt3/175b"));
  EXPECT_LT(position("pythia/2.8b"), position("pythia/12b"));
  EXPECT_NE(position("pythia/12b"), std::string::npos);
  EXPECT_TRUE(contains(list, "TP 4, PP 8, VP 6, DP 32"));
  EXPECT_FALSE(contains(list, "_base"));
}

TEST(RecipesTest, TakesTheBeginningOfNames) {
  const ProgramResult group = run_program("recipes pythia/");
  EXPECT_EQ(lines_of(group.output), 11) << group.output;  // titles, an empty line, the heading, eight recipes
  const ProgramResult one = run_program("recipes gpt3/5b");
  EXPECT_TRUE(contains(one.output, "5047558144"));
  EXPECT_FALSE(contains(one.output, "gpt3/5b_16k"));
  const ProgramResult none = run_program("recipes gtp3/5b");
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(lines_of(none.output), 1);
  EXPECT_TRUE(contains(none.output, "did you mean gpt3/5b?"));
  EXPECT_EQ(run_program("recipes --json --markdown").status, 2);
}

// A folder of the user's own, with a file that is no recipe, does not spoil the list.
TEST(RecipesTest, SaysWhichRecipesAreBroken) {
  TemporaryFolder folder;
  std::ofstream(folder / "mine.yaml") << "# my own\nextends: demo\nmodel: {num_layers: 2}\n";
  std::ofstream(folder / "broken.yaml") << "# no recipe\nmodel: {num_layer: 2}\n";
  const ProgramResult list = run_program("recipes", "TRIREME_RECIPES=" + folder.path().string());
  EXPECT_EQ(list.status, 0) << list.output;
  EXPECT_TRUE(contains(list.output, "did you mean model.num_layers?"));
  EXPECT_TRUE(contains(list.output, "\nmine "));
  EXPECT_TRUE(contains(list.output, "\ngpt3/175b "));
}

TEST(RecipesTest, PageHasTheTablesThatTheProgramPrints) {
  const std::string begin = "<!-- trireme recipes --markdown -->\n", end = "<!-- end -->";
  const std::string page = read_file(TRIREME_SOURCE_DIR "/docs/recipes.md", 1 << 20);
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(page.substr(from + begin.size(), to - from - begin.size()), run_program("recipes --markdown").output);
}

// The program is found through a link, from another folder, and after it was installed; its recipes with it.
TEST(RecipesTest, AreFoundFromAnywhere) {
  TemporaryFolder folder;
  fs::create_symlink(TRIREME_BINARY, folder / "linked");
  const auto run = [&](const std::string& command) {
    return run_shell("cd " + folder.path().string() + " && unset TRIREME_RECIPES; " + command);
  };
  EXPECT_EQ(run("./linked config gpt3/126m").status, 0);
  const std::string prefix = (folder / "prefix").string();
  const ProgramResult installed = run("cmake --install " TRIREME_BINARY_DIR " --prefix " + prefix);
  ASSERT_EQ(installed.status, 0) << installed.output;
  const ProgramResult config = run(prefix + "/bin/trireme recipes --json gpt3/126m");
  ASSERT_EQ(config.status, 0) << config.output;
  const auto recipe = nlohmann::json::parse(config.output).at(0);
  EXPECT_EQ(fs::canonical(recipe.at("path").get<std::string>()), fs::canonical(prefix) / "share/trireme/recipes/gpt3/126m.yaml");
  EXPECT_EQ(run(prefix + "/bin/trireme train demo trainer.max_steps=2").status, 0);
}

// Every recipe, as a user types it: a run, or one line that says what is missing. None may take memory or time to say so.
TEST(RecipesSlow, LargeOnesAreAnsweredInOneLine) {
  for (const nlohmann::json& recipe : recipes_as_json()) {
    const std::string name = recipe.at("name").get<std::string>();
    if (recipe.at("parameters").get<int64_t>() < 2'000'000'000 && recipe.at("gpus").get<int64_t>() == 1) continue;
    const std::string train = std::string(kLittleMemory) + TRIREME_BINARY " train " + name;
    const ProgramResult result = run_shell(train);
    EXPECT_EQ(result.status, 2) << name << "\n" << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << name << "\n" << result.output;
    // What it would take where it is meant to run is said anywhere.
    const ProgramResult planned = run_shell(train + " --dry-run");
    EXPECT_EQ(planned.status, 0) << name << "\n" << planned.output;
    EXPECT_TRUE(contains(planned.output, "\nmemory  ")) << name;
    EXPECT_TRUE(contains(planned.output, "\ngpu     ")) << name;
  }
  const ProgramResult large = run_program("train gpt3/175b");
  EXPECT_TRUE(contains(large.output, "1024 ranks (128 nodes x 8: TP 4, PP 8, VP 6, DP 32)"));
}

// What the answer says to add makes a run of it.
TEST(RecipesTest, SmallOnesRunOnOneRank) {
  TemporaryFolder folder;
  const ProgramResult answer = run_program("train gpt3/126m");
  ASSERT_EQ(answer.status, 2) << answer.output;
  const size_t advice = answer.output.find("add ");
  ASSERT_NE(advice, std::string::npos) << answer.output;
  std::string overrides = answer.output.substr(advice + 4);
  overrides.pop_back();
  const ProgramResult result =
      run_program("train gpt3/126m " + overrides +
                  " trainer.max_steps=1 model.global_batch_size=1 model.micro_batch_size=1 "
                  "model.encoder_seq_length=64 model.hidden_size=96 exp_manager.create_checkpoint_callback=false "
                  "exp_manager.explicit_log_dir=" +
                  (folder / "run").string());
  EXPECT_EQ(result.status, 0) << result.output;
}

}  // namespace
}  // namespace trireme
