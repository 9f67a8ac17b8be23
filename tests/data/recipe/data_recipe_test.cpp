// Data recipes, with a folder of this machine in place of the servers.
#include "data/recipe/data_recipe.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "data/recipe/run_recipe.h"
#include "data/tokenizer/byte_alphabet.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using prepare::DryRun;
using prepare::OutputFormat;

class DataRecipeTest : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }

  TemporaryFolder folder;
};

TEST_F(DataRecipeTest, PileIsAsTheReferencesMakeIt) {
  const DataRecipe recipe = load_data_recipe("data/pile", {}, "out");
  const auto files = files_of(recipe);
  ASSERT_EQ(files.size(), 30u);
  EXPECT_EQ(files[0].name, "00.jsonl.zst");
  EXPECT_EQ(files[29].name, "29.jsonl.zst");
  EXPECT_EQ(files[7].number, "07");
  EXPECT_EQ(recipe.tokenizer_urls.size(), 2u);
  EXPECT_EQ(recipe.output_name, "my-gpt3");
  EXPECT_EQ(recipe.format, OutputFormat::megatron);
  EXPECT_TRUE(recipe.append_eod);
  EXPECT_EQ(files_of(load_data_recipe("data/pile", {"file_numbers=0,3,5-7"}, "out")).size(), 5u);
}

TEST_F(DataRecipeTest, OpenWebTextIsAsLitGptMakesIt) {
  const DataRecipe recipe = load_data_recipe("data/openwebtext", {}, "out");
  EXPECT_EQ(recipe.format, OutputFormat::flat);
  EXPECT_EQ(recipe.validation, 0.0005);
  EXPECT_EQ(recipe.seed, 42);
  EXPECT_EQ(files_of(recipe).size(), 21u);
  EXPECT_TRUE(recipe.tokenizer_urls.at(0).ends_with("/tokenizer.json"));
}

// What the launcher's file has in every release, with values of our own.
constexpr const char* kLaunchersKeys = R"(
download_the_pile: True
the_pile_url: "https://host/pile/train/"
file_numbers: "0-2"
preprocess_data: True
download_vocab_url: "https://host/vocab.json"
download_merges_url: "https://host/merges.txt"
vocab_save_dir: ${data_dir}/bpe
merges_save_dir: ${data_dir}/bpe
)";

// The keys of the launcher's file, with values of our own.
TEST_F(DataRecipeTest, LaunchersFileIsTakenAsItIs) {
  const std::string path = folder.write("download_gpt3_pile.yaml", std::string(kLaunchersKeys) + R"(
run:
  name: download_gpt3_pile
  results_dir: ${base_results_dir}/${.name}
  time_limit: "4:00:00"
  node_array_size: 30
  array: ${..file_numbers}
dataset: pile
tokenizer_type: GPT2BPETokenizer
rm_downloaded: False
rm_extracted: True
)");
  const DataRecipe recipe = load_data_recipe(path, {}, "out");
  EXPECT_EQ(recipe.download_urls, std::vector<std::string>{"https://host/pile/train/"});
  EXPECT_EQ(files_of(recipe).back().name, "02.jsonl.zst");
  EXPECT_FALSE(recipe.rm_downloaded);
}

// What other releases have that the one above has not.
TEST_F(DataRecipeTest, FilesOfEveryReleaseAreTaken) {
  const std::string common = std::string(kLaunchersKeys) + "rm_downloaded: True\nrm_extracted: True\n";
  for (const char* more :
       {"log_dir: ${base_results_dir}/logs\nnodes: 30\ntime_limit: \"4:00:00\"\nbcp_preproc_npernode: 2\n",
        "dataset: pile\ntokenizer_type: GPT2BPETokenizer\ntokenizer_library: megatron\ntokenizer_model: null\n",
        "run:\n  name: x\n  results_dir: ${launcher_scripts_path}/${.name}\n  array: ${..file_numbers}\n"}) {
    const DataRecipe recipe = load_data_recipe(folder.write("download_gpt3_pile.yaml", common + more), {}, "out");
    EXPECT_EQ(files_of(recipe).size(), 3u) << more;
  }
  const std::string path = folder.write("download_gpt3_pile.yaml", common + "tokenizer_library: tiktoken\n");
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_data_recipe(path, {}, "out"); }), "tokenizer_library=tiktoken"));

  folder.write("conf/config.yaml", R"(
defaults:
  - _self_
  - cluster: bcm
  - data_preparation: gpt3/download_gpt3_pile
  - training: gpt3/5b
stages: [data_preparation]
launcher_scripts_path: ???
data_dir: ${launcher_scripts_path}/data
)");
  folder.write("conf/data_preparation/gpt3/download_gpt3_pile.yaml", common);
  folder.write("conf/data_preparation/other.yaml", common + "file_name: named.jsonl\n");
  const std::string conf = (folder / "conf").string();
  for (const std::string& name : {conf, conf + "/config.yaml"}) {
    EXPECT_EQ(files_of(load_data_recipe(name, {"data_preparation.file_numbers='0-1'"}, "out")).size(), 2u);
    EXPECT_EQ(load_data_recipe(name, {"data_preparation=other"}, "out").file_name, "named.jsonl");
  }
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_data_recipe(conf, {"data_preparation=none"}, "out"); }),
                       "data_preparation=none: there is no"));
}

TEST_F(DataRecipeTest, MistakesNameTheKey) {
  const auto error_of = [&](const std::vector<std::string>& overrides) {
    return message_of<UserError>([&] { files_of(load_data_recipe("data/pile", overrides, "out")); });
  };
  EXPECT_TRUE(contains(error_of({"file_number=1"}), "file_number is not a key of a data recipe; did you mean file_numbers?"));
  EXPECT_TRUE(contains(error_of({"validation=2"}), "validation=2"));
  EXPECT_TRUE(contains(error_of({"format=parquet"}), "expected megatron, flat or llmc"));
  EXPECT_TRUE(contains(error_of({"tokenizer_type=Sentencepiece"}), "expected GPT2BPETokenizer"));
  EXPECT_TRUE(contains(error_of({"file_numbers=3-1"}), "3-1"));
  EXPECT_TRUE(contains(error_of({"file_name=a/b"}), "expected the name of a file"));
  EXPECT_TRUE(contains(error_of({"download_url=null"}), "has no download_url"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_data_recipe("demo", {}, "out"); }), "not a key of a data recipe"));
}

class RunRecipeSlow : public DataRecipeTest {
 protected:
  void SetUp() override {
    DataRecipeTest::SetUp();
    nlohmann::json vocabulary;
    for (int byte = 0; byte < 256; ++byte) vocabulary[ByteAlphabet::get().write(std::string(1, static_cast<char>(byte)))] = byte;
    vocabulary["<|endoftext|>"] = 256;
    folder.write("server/vocab.json", vocabulary.dump());
    folder.write("server/merges.txt", "#version: 0.2\n");
    folder.write("server/00.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    folder.write("server/01.jsonl", "{\"text\": \"three\"}\n");
    out = (folder / "out").string();
  }

  RecipeRun pile(std::vector<std::string> overrides = {}) {
    const std::string server = (folder / "server").string();
    for (const std::string& each : {"download_url=" + server, "download_vocab_url=" + server + "/vocab.json",
                                    "download_merges_url=" + server + "/merges.txt", std::string("file_numbers='0-1'"),
                                    std::string("file_name='{00}.jsonl'")})
      overrides.insert(overrides.begin(), each);
    return {.recipe = load_data_recipe("data/pile", overrides, out), .output = out, .workers = 1};
  }
  RecipeResult run(const RecipeRun& asked) {
    return run_data_recipe(asked, {.stop = [] { return false; },
                                   .tell = [this](const std::string& line) { said += line + "\n"; },
                                   .show_download = [](const FetchProgress*) {}});
  }

  std::string out, said;
};

TEST_F(RunRecipeSlow, GoesFromTheServerToTokensAndReports) {
  EXPECT_EQ(run(pile()).outcome, RecipeOutcome::complete) << said;
  EXPECT_EQ(fs::file_size(fs::path(out) / "my-gpt3_00_text_document.bin"), 2u * (3 + 1 + 3 + 1));
  EXPECT_EQ(fs::file_size(fs::path(out) / "my-gpt3_01_text_document.bin"), 2u * (5 + 1));
  EXPECT_TRUE(fs::exists(fs::path(out) / "my-gpt3_01_text_document.idx"));
  EXPECT_FALSE(fs::exists(fs::path(out) / "downloads"));
  EXPECT_TRUE(contains(said, "2 of 2 files to do"));
  EXPECT_TRUE(contains(said, "disk: about"));
  EXPECT_TRUE(contains(said, "time: about"));
  const auto report = nlohmann::json::parse(read_file(fs::path(out) / "report.json", 1 << 20));
  ASSERT_EQ(report["stages"].size(), 3u);
  for (const char* key : {"wall_seconds", "user_seconds", "system_seconds", "cpu_percent", "peak_memory_bytes", "mb_per_second"})
    EXPECT_TRUE(report["stages"][1].contains(key)) << key;
  EXPECT_EQ(report["stages"][1]["name"], "download");
  EXPECT_EQ(report["stages"][1]["bytes"], 50);
  EXPECT_EQ(report["products"][0]["documents"], 2);
}

TEST_F(RunRecipeSlow, ProcessesThatShareTheVocabularyWaitForEachOther) {
  fs::create_directories(out);
  std::optional<File> other = File::open_update(fs::path(out) / ".vocabulary.lock");
  ASSERT_TRUE(other->lock());
  const RecipeResult result = run_data_recipe(pile(), {.stop = [] { return false; },
                                                       .tell =
                                                           [&](const std::string& line) {
                                                             said += line + "\n";
                                                             if (line.starts_with("waiting for another process")) other.reset();
                                                           },
                                                       .show_download = [](const FetchProgress*) {}});
  EXPECT_EQ(result.outcome, RecipeOutcome::complete) << said;
  EXPECT_TRUE(contains(said, "waiting for another process that fetches the vocabulary"));
}

TEST_F(RunRecipeSlow, WhatIsThereIsNotMadeAgain) {
  EXPECT_EQ(run(pile({"file_numbers='0'"})).outcome, RecipeOutcome::complete);
  fs::remove(folder / "server/00.jsonl");
  EXPECT_EQ(run(pile()).outcome, RecipeOutcome::complete) << said;
  EXPECT_TRUE(contains(said, "1 of 2 files to do"));
  // The report is of both runs, and a run with nothing to do leaves it alone.
  const std::string report = read_file(fs::path(out) / "report.json", 1 << 20);
  const auto stages = nlohmann::json::parse(report)["stages"];
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[1]["bytes"], 50);
  EXPECT_EQ(run(pile()).outcome, RecipeOutcome::complete);
  EXPECT_EQ(read_file(fs::path(out) / "report.json", 1 << 20), report);
  EXPECT_TRUE(fs::exists(fs::path(out) / "my-gpt3_01_text_document.idx"));
}

TEST_F(RunRecipeSlow, WhatIsThereInPartIsNotCalledComplete) {
  EXPECT_EQ(run(pile()).outcome, RecipeOutcome::complete) << said;
  fs::resize_file(fs::path(out) / "my-gpt3_01_text_document.bin", 3);
  EXPECT_TRUE(contains(message_of<UserError>([&] { run(pile()); }), "my-gpt3_01_text_document.bin: 3 bytes"));
  fs::remove(fs::path(out) / "my-gpt3_01_text_document.bin");
  EXPECT_TRUE(contains(message_of<UserError>([&] { run(pile()); }), "it is gone"));
}

TEST_F(RunRecipeSlow, DownloadsAreKeptWhereAskedAndUsedWhenThere) {
  EXPECT_EQ(run(pile({"rm_downloaded=false"})).outcome, RecipeOutcome::complete);
  EXPECT_TRUE(fs::exists(fs::path(out) / "downloads/00.jsonl"));
  fs::remove(folder / "server/00.jsonl");
  for (const char* ending : {"bin", "idx"}) fs::remove(fs::path(out) / fmt::format("my-gpt3_00_text_document.{}", ending));
  fs::remove(fs::path(out) / "my-gpt3_00_report.json");
  EXPECT_EQ(run(pile({"download_the_pile=false"})).outcome, RecipeOutcome::complete) << said;
  EXPECT_TRUE(fs::exists(fs::path(out) / "my-gpt3_00_text_document.idx"));
}

// Nothing listens on port 1 of this machine. What cannot be reached is said soon, once, with the keys or options of its place.
TEST_F(RunRecipeSlow, HostsThatCannotBeReachedAreSaidSoon) {
  const std::string nowhere = "http://127.0.0.1:1";
  for (const auto& [change, remedy] : {std::pair("download_vocab_url=" + nowhere + "/vocab.json", "download_vocab_url=URL"),
                                       std::pair("download_url=" + nowhere, "--url or --mirror")}) {
    RecipeRun asked = pile({change, "file_numbers='0-19'"});
    if (change.starts_with("download_url")) asked.recipe.download_urls = {nowhere};
    if (change.starts_with("download_vocab")) asked.recipe.tokenizer_urls = {nowhere + "/vocab.json"};
    asked.dry_run = DryRun::yes;
    asked.fetch.download.reach_seconds = 1;
    const Stopwatch watch;
    const std::string said_last = message_of<Failure>([&] { run(asked); });
    EXPECT_LT(watch.seconds(), 10) << "the retries of a download, which add up to half a minute";
    EXPECT_TRUE(contains(said_last, "cannot reach http://127.0.0.1:1")) << said_last;
    EXPECT_TRUE(contains(said_last, remedy)) << said_last;
  }
}

TEST_F(RunRecipeSlow, DryRunWritesNothing) {
  RecipeRun asked = pile();
  asked.dry_run = DryRun::yes;
  const RecipeResult result = run(asked);
  EXPECT_EQ(result.outcome, RecipeOutcome::planned);
  EXPECT_EQ(result.report["bytes_to_download"], 50);
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(RunRecipeSlow, DiskThatIsTooSmallStopsItBeforehand) {
  EXPECT_TRUE(contains(message_of<UserError>([&] { run(pile({"text_bytes_per_byte=1e14"})); }), "are needed and"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(RunRecipeSlow, MissingFileIsLookedForAtOtherPlaces) {
  fs::remove(folder / "server/01.jsonl");
  EXPECT_TRUE(contains(message_of<UserError>([&] { run(pile()); }), "01.jsonl: there is no such file"));
  RecipeRun asked = pile();
  asked.fetch.mirrors = {(folder / "mirror").string()};
  EXPECT_TRUE(contains(message_of<Failure>([&] { run(asked); }), "name another place with --url or --mirror"));
  folder.write("mirror/01.jsonl", "{\"text\": \"three\"}\n");
  EXPECT_EQ(run(asked).outcome, RecipeOutcome::complete) << said;
}

TEST_F(RunRecipeSlow, ArchivesOfTextBecomeTrainAndVal) {
  for (int i = 0; i < 20; ++i) folder.write(fmt::format("texts/{:02}.txt", i), fmt::format("text {:02}", i));
  const std::string command =
      fmt::format("cd {} && tar cJf part.xz -C texts . && tar cf server/set0.tar part.xz", folder.path().string());
  ASSERT_EQ(std::system(command.c_str()), 0);
  RecipeRun asked = pile({"file_name='set{0}.tar'", "file_numbers='0'", "format=flat", "output_name=web", "validation=0.1"});
  EXPECT_EQ(run(asked).outcome, RecipeOutcome::complete) << said;
  EXPECT_EQ(fs::file_size(fs::path(out) / "web/train.bin"), 18u * 8 * 2);
  EXPECT_EQ(fs::file_size(fs::path(out) / "web/val.bin"), 2u * 8 * 2);
}

}  // namespace
}  // namespace trireme
