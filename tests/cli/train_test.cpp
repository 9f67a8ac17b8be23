// The program as its users meet it: runs that stop and go on, mistakes answered in one line.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/small_run.h"

namespace trireme {
namespace {

using TrainTest = SmallRun;

TEST_F(TrainTest, ASentencepieceModelIsThereFromTextToText) {
  const std::string model = TRIREME_SOURCE_DIR "/tests/data/tokenizer/sentencepiece/bpe_bytes.model";
  const auto prepared = run_program("data prepare " + (folder_ / "text.txt").string() + " --append-eod --tokenizer " + model +
                                    " --output " + (folder_ / "data").string());
  EXPECT_EQ(prepared.status, 0) << prepared.output;
  const auto encoded = run_program("data encode --tokenizer " + model + " < " + (folder_ / "text.txt").string() + " | wc -w");
  EXPECT_NE(prepared.output.find(fmt::format("{} tokens", std::stoll(encoded.output) + 1)), std::string::npos)
      << prepared.output << encoded.output;
  const auto trained = run_program(train(
      "run", "trainer.max_steps=2 model.tokenizer.library=sentencepiece model.vocab_size=null model.tokenizer.model=" + model));
  ASSERT_EQ(trained.status, 0) << trained.output;
  const auto text = run_program("generate " + (folder_ / "run").string() + " --prompt 'a text' --tokens 5 --json");
  ASSERT_EQ(text.status, 0) << text.output;
  const auto json = nlohmann::json::parse(text.output);
  EXPECT_EQ(json.at("tokens").size(), 5U);
  EXPECT_LT(json.at("prompt_tokens").size(), std::string("a text").size());
}

// A checkpoint that the recipe does not go on from is named with the settings that differ.
TEST_F(TrainTest, OnlyTheSameModelIsResumed) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=4")).status, 0);
  const auto refused = [&](const std::string& change, const std::string& part) {
    const auto result = run_program(train("run", change + " --resume"));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(contains(result.output, part));
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
  };
  refused("trainer.max_steps=2", "step-00000004, is of step 4; use at least that");
  refused("trainer.max_steps=6 model.num_layers=3", "model.num_layers is 2 there and 3 here");
  refused("trainer.max_steps=6 model.num_layers=1", "model.num_layers is 2 there and 1 here");
  refused("trainer.max_steps=6 model.hidden_size=64", "model.hidden_size is 32 there and 64 here");
  EXPECT_EQ(run_program(train("run", "trainer.max_steps=4 --resume")).status, 0) << "nothing is left to do";
}

// As a drawing and as numbers, without making anything.
TEST_F(TrainTest, ADryRunShowsMemoryOverTheStep) {
  const auto text = run_program(train("run", "--dry-run"));
  EXPECT_EQ(text.status, 0) << text.output;
  EXPECT_TRUE(contains(text.output, "\nin use  "));
  EXPECT_TRUE(contains(text.output, " of micro-batch 0: "));
  const auto numbers = run_shell(std::string(TRIREME_BINARY) + " " + train("run", "--dry-run --json") + " 2>/dev/null");
  ASSERT_EQ(numbers.status, 0) << numbers.output;
  const auto memory = nlohmann::json::parse(numbers.output)["memory"];
  EXPECT_LE(memory["step"]["peak"], memory["total"]);
  EXPECT_FALSE(memory["step"]["over_step"].empty());
  EXPECT_FALSE(memory["step"]["at_peak"].empty());
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainTest, HeadsThatAreTooWideAreRefused) {
  const auto refused = [&](const std::string& change, const std::string& part) {
    const auto result = run_program(train("run", change));
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_TRUE(contains(result.output, part));
  };
  refused("model.hidden_size=1028 model.num_attention_heads=4",
          "are 257 wide each, and may be 256 at most; use at least 5 heads");
  refused("model.kv_channels=300", "model.kv_channels=300: heads may be 256 wide at most");
  EXPECT_EQ(run_program(train("run", "model.kv_channels=300 trainer.backend=reference trainer.max_steps=1")).status, 0);
}

TEST_F(TrainTest, SaysWhatItComputesOnAndWhy) {
  const auto result = run_program(train("run", "trainer.backend=cpu --dry-run"));
  EXPECT_TRUE(contains(result.output, "\nbackend cpu: trainer.backend=cpu\n"));
  const auto automatic = run_program(train("run", "--dry-run"));
  EXPECT_TRUE(contains(automatic.output, "\nbackend c"));
}

TEST_F(TrainTest, TraceShowsWhereTheTimeOfAStepGoes) {
  const auto result = run_program(train("run", "trainer.max_steps=8 --trace-ops"));
  ASSERT_EQ(result.status, 0) << result.output;
  const auto ops = nlohmann::json::parse(read_file(folder_ / "run/ops_globalrank-0.json", 1 << 20));
  EXPECT_EQ(ops.at("steps"), 3);
  double seconds = 0, flops = 0;
  for (const auto& op : ops.at("ops")) seconds += op.at("seconds").get<double>(), flops += op.at("flops").get<double>();
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds, ops.at("step_seconds").get<double>());
  EXPECT_GT(flops, 6 * 4 * 16 * (12 * 32 * 32 * 2));  // at least the products of the blocks: 6 a token and parameter
  EXPECT_TRUE(fs::exists(folder_ / "run/trace_globalrank-0.json"));
  EXPECT_NE(result.output.find("linear_weight_grad"), std::string::npos);
}

// The reference backend has FP8 on every machine.
TEST_F(TrainTest, GoesOnInFp8AndBack) {
  const std::string small = "trainer.backend=reference trainer.val_check_interval=100 ";
  ASSERT_EQ(run_program(train("run", small + "trainer.max_steps=2")).status, 0);
  const auto begun = run_program(train("run", small + "trainer.max_steps=4 model.fp8=true --resume --changed"));
  ASSERT_EQ(begun.status, 0) << begun.output;
  EXPECT_TRUE(contains(begun.output, "resumed from step 2"));
  EXPECT_TRUE(contains(begun.output, "FP8 scales are reset"));
  const auto on = run_program(train("run", small + "trainer.max_steps=6 model.fp8=true --resume --changed"));
  ASSERT_EQ(on.status, 0) << on.output;
  EXPECT_FALSE(contains(on.output, "FP8 scales are reset"));
  const auto other =
      run_program(train("run", small + "trainer.max_steps=8 model.fp8=true model.fp8_lm_head=true --resume --changed"));
  ASSERT_EQ(other.status, 0) << other.output;
  EXPECT_TRUE(contains(other.output, "FP8 scales are reset"));
  const auto back = run_program(train("run", small + "trainer.max_steps=10 --resume --changed"));
  ASSERT_EQ(back.status, 0) << back.output;
  EXPECT_TRUE(contains(back.output, "resumed from step 8"));
}

TEST_F(TrainTest, TuningIsForGpus) {
  const auto result = run_program(train("run", "trainer.backend=cpu --tune"));
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_NE(result.output.find("--tune needs a GPU, and this run is on cpu"), std::string::npos) << result.output;
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TrainTest, ResumedRunEqualsTheUninterruptedOneBitForBit) {
  const std::string keep = "exp_manager.checkpoint_callback_params.keep_last=9 ";
  ASSERT_EQ(run_program(train("run", keep)).status, 0);
  const std::string uninterrupted = shard_bytes("run", 40);
  for (const int step : {20, 30, 40}) fs::remove_all(shard("run", step).parent_path());
  const auto resumed = run_program(train("run", keep + "--resume"));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 10"));
  EXPECT_TRUE(shard_bytes("run", 40) == uninterrupted);
}

TEST_F(TrainTest, DamagedCheckpointIsSkippedWithAWord) {
  ASSERT_EQ(run_program(train("run")).status, 0);
  const std::string good = shard_bytes("run", 40);
  // A flipped bit in the newest; the run goes on from the one before and arrives at the same weights.
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  std::ofstream(shard("run", 40), std::ios::binary) << bad;
  const auto resumed = run_program(train("run", "--resume"));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "step-00000040"));
  EXPECT_TRUE(contains(resumed.output, "resumed from step 30"));
  EXPECT_TRUE(shard_bytes("run", 40) == good);
}

TEST_F(TrainTest, SummaryHasWhatIsPromised) {
  const auto result = run_program(train("run"));
  ASSERT_EQ(result.status, 0) << result.output;
  const auto summary = nlohmann::json::parse(read_file(folder_ / "run" / "summary.json", 1 << 20));
  EXPECT_EQ(summary.at("steps_done").get<int>(), 40);
  EXPECT_GT(summary.at("tokens_per_second").get<double>(), 0);
}

// The names that scripts of the reference systems' users look for; docs/logs.md says what each is.
TEST_F(TrainTest, TheFolderHasEveryPromisedFile) {
  const auto result = run_program(train("run", "--mllog exp_manager.files_to_copy=[" + (folder_ / "text.txt").string() + "]"));
  ASSERT_EQ(result.status, 0) << result.output;
  for (const char* file : {"recipe.yaml", "hparams.yaml", "cmd-args.log", "git-info.log", "joblog.log", "lightning_logs.txt",
                           "nemo_error_log.txt", "nemo_log_globalrank-0_localrank-0.txt", "dllogger/rank-0/dllogger.json",
                           "metrics.csv", "mllog.txt", "summary.json", "checkpoints", "text.txt"})
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  const auto text_of = [&](const char* file) { return read_file(folder_ / "run" / file, 1 << 20); };
  EXPECT_TRUE(text_of("hparams.yaml").starts_with("cfg:\n  micro_batch_size: 2\n"));
  EXPECT_TRUE(contains(text_of("cmd-args.log"), "small.yaml exp_manager.explicit_log_dir="));
  EXPECT_TRUE(contains(text_of("git-info.log"), "commit hash: "));
  EXPECT_TRUE(contains(text_of("joblog.log"), "STATUS=finished\n"));
  EXPECT_TRUE(contains(text_of("lightning_logs.txt"), "`Trainer.fit` stopped: `max_steps=40` reached.\n"));
  EXPECT_TRUE(contains(text_of("nemo_log_globalrank-0_localrank-0.txt"), "model FLOPs per sample (formula full"));
}

TEST_F(TrainTest, KeysThatSteerLogsDoWhatTheySay) {
  const auto data_of = [&](const std::string& run, size_t line) {
    std::istringstream file(read_file(folder_ / run / "dllogger/rank-0/dllogger.json", 1 << 20));
    std::string text;
    for (size_t i = 0; i <= line; ++i) std::getline(file, text);
    return nlohmann::json::parse(text.substr(4)).at("data");
  };
  const std::string timing = "train_step_timing in s", raw = "train_step_timing_raw in s";
  ASSERT_EQ(run_program(train("plain", "trainer.max_steps=12")).status, 0);
  EXPECT_EQ(lines_of(read_file(folder_ / "plain/dllogger/rank-0/dllogger.json", 1 << 20)), 13);
  EXPECT_NE(data_of("plain", 12).at(timing), data_of("plain", 12).at(raw));

  ASSERT_EQ(run_program(train("raw", "trainer.max_steps=12 exp_manager.step_timing_kwargs.buffer_size=-1")).status, 0);
  EXPECT_EQ(data_of("raw", 12).at(timing), data_of("raw", 12).at(raw));

  ASSERT_EQ(run_program(train("untimed", "trainer.max_steps=2 exp_manager.log_step_timing=false")).status, 0);
  EXPECT_FALSE(data_of("untimed", 1).contains(timing));

  ASSERT_EQ(run_program(train("sparse", "trainer.max_steps=12 trainer.log_every_n_steps=5")).status, 0);
  EXPECT_EQ(lines_of(read_file(folder_ / "sparse/dllogger/rank-0/dllogger.json", 1 << 20)), 3);  // steps 4 and 9
  EXPECT_EQ(data_of("sparse", 1).at("global_step"), 4);

  const auto said = run_program(train("said", "trainer.max_steps=2 exp_manager.dllogger_logger_kwargs.stdout=true"));
  EXPECT_TRUE(contains(said.output, " - 1 reduced_train_loss : "));

  const std::string none =
      "trainer.max_steps=2 exp_manager.create_dllogger_logger=false exp_manager.create_tensorboard_logger=false";
  ASSERT_EQ(run_program(train("none", none)).status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "none/dllogger"));
  for (const auto& entry : fs::directory_iterator(folder_ / "none"))
    EXPECT_FALSE(entry.path().filename().string().starts_with("events.")) << entry.path();
}

TEST_F(TrainTest, AFailureStandsInTheErrorLog) {
  ASSERT_EQ(run_program(train("run", "trainer.max_steps=10")).status, 0);
  folder_.write("run/checkpoints/step-00000010/manifest.json", "damaged");
  const auto result = run_program(train("run", "--resume"));
  EXPECT_EQ(result.status, 1) << result.output;
  const std::string errors = read_file(folder_ / "run/nemo_error_log.txt", 1 << 20);
  EXPECT_TRUE(contains(errors, "[NeMo E "));
  EXPECT_TRUE(contains(read_file(folder_ / "run/joblog.log", 1 << 20), "STATUS=failed\n"));
  EXPECT_TRUE(fs::exists(folder_ / "run/recipe.1.yaml"));  // that of the run before
}

TEST_F(TrainTest, BenchmarkMeasuresAndSavesNothing) {
  const auto result = run_program(train("run", "--benchmark trainer.max_steps=12"));
  ASSERT_EQ(result.status, 0) << result.output;
  for (const char* words : {"data    mock", "step time    mean ", "by the full formula", "by the causal formula",
                            "slowest      rank 0", "memory       rank 0 "})
    EXPECT_TRUE(contains(result.output, words));
  EXPECT_FALSE(fs::exists(folder_ / "run/checkpoints"));
  const auto report = nlohmann::json::parse(read_file(folder_ / "run/benchmark.json", 1 << 20));
  EXPECT_EQ(report.at("averaged_steps"), 7);  // of 12, without 5 of warm-up
  EXPECT_TRUE(report.at("validation_loss").is_null());
  EXPECT_GT(report.at("rates").at("full").at("mfu").get<double>(), 0);
  EXPECT_GT(report.at("ranks").at(0).at("peak_memory_bytes").get<int64_t>(), 1 << 20);

  const auto printed = run_program(train("json", "--benchmark --json trainer.max_steps=2"));
  const size_t begin = printed.output.find("\n{\n");  // after what went to stderr
  ASSERT_NE(begin, std::string::npos) << printed.output;
  EXPECT_EQ(nlohmann::json::parse(printed.output.substr(begin)).at("steps"), 2);
}

TEST_F(TrainTest, GenerateIsRepeatable) {
  ASSERT_EQ(run_program(train("run")).status, 0);
  const std::string command = "generate " + (folder_ / "run").string() + " --prompt 'line ' --tokens 8 --seed 3 --temperature 1";
  const auto once = run_program(command), again = run_program(command);
  EXPECT_EQ(once.status, 0) << once.output;
  EXPECT_EQ(once.output, again.output);
  EXPECT_TRUE(once.output.starts_with("line "));
  const auto json = nlohmann::json::parse(run_program(command + " --json").output);
  EXPECT_EQ(json.at("prompt"), "line ");
  EXPECT_EQ(json.at("step"), 40);
  EXPECT_TRUE(json.at("tokens").size() == 8 || json.at("ended").get<bool>());
}

// From text alone: a vocabulary learnt from it, a model trained with it, text written with it.
TEST_F(TrainTest, TrainsAndWritesWithALearntTokenizer) {
  const std::string tokenizer = (folder_ / "tokenizer").string(), text = (folder_ / "text.txt").string();
  ASSERT_EQ(run_program("data train-tokenizer --vocab-size 300 --output " + tokenizer + " " + text).status, 0);
  const std::string named = " model.tokenizer.vocab_file=" + tokenizer + "/vocab.json";
  const auto trained = run_program(train("run", "trainer.max_steps=2" + named));
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_FALSE(contains(trained.output, "vocabulary 257 ")) << trained.output;
  EXPECT_FALSE(contains(trained.output, "vocab_file")) << "it has an effect";
  const auto written = run_program("generate " + (folder_ / "run").string() + " --prompt 'line ' --tokens 8");
  EXPECT_EQ(written.status, 0) << written.output;
  EXPECT_TRUE(written.output.starts_with("line "));
  ASSERT_EQ(run_program(train("bytes", "trainer.max_steps=2")).status, 0);
  const auto unfit = run_program("generate " + (folder_ / "bytes").string() + " --prompt 'line ' --tokenizer " + tokenizer);
  EXPECT_EQ(unfit.status, 2);
  EXPECT_TRUE(contains(unfit.output, "the tokenizer has 300 tokens and this model 257: they do not belong together"))
      << unfit.output;
  const auto refused = run_program(train("other", named + " model.vocab_size=280"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(contains(refused.output, "model.vocab_size=280 is too small for model.tokenizer.vocab_file=")) << refused.output;
}

TEST_F(TrainTest, DryRunMakesNothing) {
  const auto result = run_program(train("run", "--dry-run"));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "memory "));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

// Every mistake: status 2, one line, and the words that name it.
TEST_F(TrainTest, MistakesAreAnsweredInOneLine) {
  ASSERT_EQ(run_program(train("used", "trainer.max_steps=2")).status, 0);
  const struct {
    std::string arguments;
    std::string words;
  } cases[] = {
      {"train no-such-recipe", "no-such-recipe"},
      {train("run", "model.num_layer=3"), "num_layers"},
      {train("run", "model.num_attention_heads=5"), "num_attention_heads"},
      {train("run", "model.data.data_prefix=[/no/such/file]"), "/no/such/file"},
      {train("run", "trainer.precision=16-true"), "16-mixed"},
      {train("run", "trainer.precision=16 trainer.backend=cuda"), "fp16 is for CPUs"},
      {train("run", "model.encoder_seq_length=30000 model.max_position_embeddings=30000"), "encoder_seq_length"},
      {train("run", "--resume"), "no checkpoint"},
      {train("run", "--resume --benchmark"), "--benchmark and --resume"},
      {train("run", "exp_manager.files_to_copy=[/no/such/file]"), "files_to_copy"},
      {train("used"), "earlier run"},
      {"train demo --no-such-flag", "--no-such-flag"},
      {"generate /no/such/folder", "/no/such/folder"},
      {"generate " + (folder_ / "used").string() + " --temperature -1", "temperature"},
      {"generate " + (folder_ / "used").string() + " --prompt " + std::string(40, 'x'), "40 tokens"},
      {"", "subcommand"},
      {"trian demo", "trian is not a command; did you mean train?"},
      {"data inspct x", "inspct is not a command; did you mean inspect?"},
  };
  for (const auto& test : cases) {
    const auto result = run_program(test.arguments);
    EXPECT_EQ(result.status, 2) << test.arguments << "\n" << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, test.words));
  }
}

}  // namespace
}  // namespace trireme
