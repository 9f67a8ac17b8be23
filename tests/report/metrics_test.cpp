#include "report/metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/run_program.h"
#include "logs.h"
#include "report/page.h"
#include "report/read_run.h"
#include "support/golden_data.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

// Without what the program says on stderr.
std::string stdout_of(const std::string& arguments) { return run_program(arguments + " 2>/dev/null | cat").output; }

class MetricsTest : public testing::Test {
 protected:
  RunMetrics measure_log(const std::string& text, const FactOptions& said = {}, const StepChoice& choice = {}) {
    return measure(read_run(folder_.write("dllogger.json", text)), said, choice);
  }

  TemporaryFolder folder_;
};

constexpr int64_t kStart = 10, kEnd = 30;  // of the reference tool

// Worked out by hand. Steps 10 to 30 take 11 to 31 s, 21 s in the mean. A sample has, with C = 8, L = 2, T = 16, V = 128:
// full 3*16*(2*(8*64 + 4*8*32 + 4*16*8) + 2*8*128) = 294912, causal 3*16*(2*(512 + 1024 + 256) + 2048) = 270336 FLOPs.
TEST_F(MetricsTest, FiguresOfASmallLog) {
  const RunMetrics metrics =
      measure_log(nemo_log(50), {.num_accelerators = 2, .max_flops = 1e-6}, {.start_step = kStart, .end_step = kEnd});
  EXPECT_EQ(metrics.step->averaged, 21);
  EXPECT_DOUBLE_EQ(metrics.step->mean, 21);
  EXPECT_DOUBLE_EQ(metrics.step->median, 21);
  EXPECT_EQ(metrics.step->least, 11);
  EXPECT_EQ(metrics.step->most, 31);
  EXPECT_EQ(metrics.step->chosen, "steps 10 to 30");
  EXPECT_DOUBLE_EQ(*metrics.tokens_per_second, 4 * 16 / 21.0);
  ASSERT_EQ(metrics.rates.size(), 2u);
  EXPECT_EQ(metrics.rates[0].basis.name, "full");
  EXPECT_DOUBLE_EQ(metrics.rates[0].basis.per_sample, 294912);
  EXPECT_DOUBLE_EQ(metrics.rates[0].tflops, 294912.0 * 4 / 21 / 2 / 1e12);
  EXPECT_EQ(metrics.rates[1].basis.name, "causal");
  EXPECT_DOUBLE_EQ(metrics.rates[1].basis.per_sample, 270336);
  EXPECT_DOUBLE_EQ(*metrics.mfu, metrics.rates[0].tflops / 1e-6);
  EXPECT_EQ(metrics.facts.layout, "TP 2, PP 1, CP 1, DP 1");
}

TEST_F(MetricsTest, ReferenceLinesHaveEightDecimals) {
  const RunMetrics metrics =
      measure_log(nemo_log(50), {.num_accelerators = 3, .model_flops = 1e15, .max_flops = 989}, {.start_step = kStart});
  // 1e15 * 4 / 21 / 3 / 1e12 and that / 989, as Python prints them with :.8f
  EXPECT_EQ(reference_lines(metrics), "Average step time: 21.00000000\nTFLOPS/Accelerator: 63.49206349\nMFU: 0.06419824\n");
}

TEST_F(MetricsTest, ChosenStepsAndRanges) {
  EXPECT_DOUBLE_EQ(measure_log(nemo_log(200), {}, {.steps = {149, 169, 189}}).step->mean, 170);
  EXPECT_DOUBLE_EQ(measure_log(nemo_log(200), {}, {.start_step = 5, .end_step = 5}).step->mean, 6);
  EXPECT_DOUBLE_EQ(measure_log(nemo_log(20), {}, {.end_step = kEnd}).step->mean, 15.5);  // 10 to 19 of 10 to 30
  const RunMetrics others = measure_log(nemo_log(20));
  EXPECT_DOUBLE_EQ(others.step->mean, 13);  // 6 to 20 s
  EXPECT_EQ(others.step->chosen, "steps 5 to 19, without the first 5");
  const RunMetrics brief = measure_log(nemo_log(8));
  EXPECT_DOUBLE_EQ(brief.step->mean, 6.5);  // 5 to 8 s
  EXPECT_EQ(brief.step->chosen, "steps 4 to 7, without the first 4");

  const auto complaint = [&](const StepChoice& choice) {
    return message_of<UserError>([&] { measure_log(nemo_log(8), {}, choice); });
  };
  EXPECT_TRUE(contains(complaint({.start_step = 10}), "steps 10 to 30; it has steps 0 to 7"));
  EXPECT_TRUE(contains(complaint({.start_step = 3, .end_step = 2}), "--start_step 3 is after --end_step 2"));
  EXPECT_TRUE(contains(complaint({.steps = {3, 8}}), "no step time for step 8"));
}

// Our logs tell which steps are steady, and the time of each step beside the running mean.
TEST_F(MetricsTest, SteadyStepsAndSingleTimesAreTakenWhereTheyAreLogged) {
  std::string log;
  for (int step = 0; step < 40; ++step)
    log += dllogger_line(std::to_string(step),
                         fmt::format("\"train_step_timing in s\": 5.0, \"train_step_timing_raw in s\": {}, \"steady_step\": {}",
                                     step == 20 ? 9.0 : 1.0 + step % 2, step >= 7 && step != 21 ? 1 : 0));
  const RunMetrics steady = measure_log(log);
  EXPECT_EQ(steady.step->chosen, "steady steps 7 to 39");
  EXPECT_EQ(steady.step->averaged, 32);
  EXPECT_DOUBLE_EQ(steady.step->mean, (16 * 2.0 + 15 * 1.0 + 9.0) / 32);
  EXPECT_EQ(steady.step->source, "train_step_timing_raw in s");
  EXPECT_EQ(steady.step->most, 9);
  // The mean is the reference tool's, the rest is of single steps all the same.
  const RunMetrics reference = measure_log(log, {}, {.start_step = kStart, .end_step = kEnd});
  EXPECT_DOUBLE_EQ(reference.step->mean, 5);
  EXPECT_EQ(reference.step->source, "train_step_timing in s");
  EXPECT_EQ(reference.step->spread_source, "train_step_timing_raw in s");
  EXPECT_EQ(reference.step->least, 1);
  EXPECT_EQ(reference.step->most, 9);
  EXPECT_DOUBLE_EQ(reference.step->median, 2);
  EXPECT_TRUE(contains(details(reference),
                       "5.00 s over steps 10 to 30 (21 values of \"train_step_timing in s\"): median 2.00 s, "
                       "least 1.00 s, most 9.00 s of \"train_step_timing_raw in s\""));
}

TEST_F(MetricsTest, AnMfuAboveOneIsSaidToBeImpossible) {
  const FactOptions said{.num_accelerators = 2, .model_flops = 1e12, .max_flops = 1e-3};
  const RunMetrics metrics = measure_log(nemo_log(50), said);
  ASSERT_GT(*metrics.mfu, 1);
  EXPECT_TRUE(contains(metrics.facts.warnings.at(0), "impossible"));
  EXPECT_TRUE(contains(details(metrics), "impossible"));
  const auto page = make_report({read_run(folder_.write("dllogger.json", nemo_log(50)))}, said, "");
  EXPECT_TRUE(contains(html_page(page), "impossible"));
}

// As LitGPT's pretraining writes it: a row every so many micro-batches, numbered by them; iter_time is that of one of them.
TEST_F(MetricsTest, ALitgptCsvGivesStepsAndTokensNotMicroBatches) {
  std::string csv = "loss,iter,epoch,iter_time,remaining_time,tokens,total_tokens,learning_rate,time,batches,samples,step\n";
  for (int row = 1; row <= 12; ++row) {  // 8 micro-batches of 4 samples of 16 tokens on 2 devices take 4 s
    const int iterations = 8 * row;
    csv += fmt::format("3.0,{},0,0.4,1.0,{},{},0.001,{},{},{},{}\n", iterations, iterations * 64, iterations * 128, 4.0 * row,
                       iterations, iterations * 4, iterations - 1);
  }
  const std::string run = folder_.path() / "out/version_0";
  folder_.write("out/version_0/metrics.csv", csv);
  const RunMetrics alone = measure(read_run(run), {}, {});
  EXPECT_DOUBLE_EQ(*alone.tokens_per_second, 8 * 128 / 4.0);
  EXPECT_TRUE(alone.rates.empty());
  EXPECT_TRUE(contains(alone.notes.at(0), "one micro-batch"));
  // A step is 32 samples: 4 micro-batches on each device, so 2 s.
  folder_.write("out/version_0/hyperparameters.yaml",
                "devices: 2\ntrain: {global_batch_size: 32, micro_batch_size: 4, max_seq_length: 16}\n");
  const RunMetrics known = measure(read_run(run), {.model_flops = 1e12}, {});
  EXPECT_DOUBLE_EQ(known.step->mean, 2);
  EXPECT_DOUBLE_EQ(*known.tokens_per_second, 8 * 128 / 4.0);
  EXPECT_DOUBLE_EQ(known.rates.at(0).tflops, 32.0 / 2 / 2);
}

TEST_F(MetricsTest, PrecisionAndPeakFollowTheLogUnlessSaid) {
  const std::string fp8 = nemo_log(50, ", \"cfg/fp8\": true, \"cfg/precision\": \"bf16-mixed\"");
  const FactOptions h100{.num_accelerators = 2, .accelerator_type = "h100"};
  EXPECT_EQ(measure_log(fp8, h100).facts.peak->tflops, 1978);
  EXPECT_TRUE(measure_log(fp8, h100).facts.warnings.empty());
  EXPECT_EQ(measure_log(nemo_log(50), h100).facts.peak->tflops, 989);

  FactOptions bf16 = h100;
  bf16.precision = PeakPrecision::bf16;
  EXPECT_EQ(measure_log(fp8, bf16).facts.peak->tflops, 989);
  EXPECT_TRUE(contains(measure_log(fp8, bf16).facts.warnings.at(0), "trained in FP8"));
  EXPECT_EQ(measure_log(fp8, {.max_flops = 989}).facts.warnings.size(), 1u);  // the bf16 peak of an H100
  EXPECT_EQ(measure_log(fp8, {.max_flops = 1978}).facts.warnings.size(), 0u);
  EXPECT_TRUE(measure_log(nemo_log(50), bf16).facts.warnings.empty());
}

TEST_F(MetricsTest, SaysWhatIsMissing) {
  const RunMetrics metrics = measure_log(nemo_log(50));
  EXPECT_TRUE(metrics.rates.empty());
  EXPECT_FALSE(metrics.mfu);
  EXPECT_TRUE(contains(metrics.notes.at(0), "--num_accelerators"));
  EXPECT_TRUE(contains(metrics.notes.at(0), "--accelerator_type"));
  EXPECT_EQ(reference_lines(metrics), "Average step time: 28.00000000\n");  // 6 to 50 s
}

TEST_F(MetricsTest, AnswersMistakesInOneLine) {
  const auto complaint = [&](const FactOptions& said) { return message_of<UserError>([&] { measure_log(nemo_log(50), said); }); };
  EXPECT_TRUE(contains(complaint({.batch_size = 0}), "--batch_size 0"));
  EXPECT_TRUE(contains(complaint({.num_accelerators = -1}), "--num_accelerators -1"));
  EXPECT_TRUE(contains(complaint({.model_type = "gpt5"}), "gpt3-175b"));
  EXPECT_TRUE(contains(complaint({.model_flops = 0.0}), "--model_flops 0"));
  EXPECT_TRUE(contains(complaint({.accelerator_type = "h1000"}), "--accelerator_type h1000 is not known"));
  EXPECT_TRUE(contains(complaint({.accelerator_type = "a100", .precision = PeakPrecision::fp8}), "has no fp8 peak"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { measure_log(dllogger_line("0", "\"loss\": 1")); }), "has no step times"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { measure_log(dllogger_line("10", "\"train_step_timing in s\": NaN")); }),
                       "no mean above 0"));
}

TEST_F(MetricsTest, TheProgramPrintsWhatTheReferenceToolPrints) {
  const std::string path = folder_.write("dllogger.json", nemo_log(50));
  const auto tool =
      run_program("metrics --file " + path + " --batch_size 8 --num_accelerators 3 --model_flops 1e15 --max_flops 989");
  EXPECT_EQ(tool.status, 0);
  EXPECT_EQ(tool.output, "Average step time: 21.00000000\nTFLOPS/Accelerator: 126.98412698\nMFU: 0.12839649\n");
  const auto none = run_program("metrics --file " + path + " --start_step 90 --end_step 99");
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(lines_of(none.output), 1) << none.output;
}

TEST_F(MetricsTest, TheProgramComparesRunsAndSpeaksJson) {
  const std::string a = folder_.write("a/dllogger.json", nemo_log(50)), b = folder_.write("b/dllogger.json", nemo_log(40));
  const auto table = run_program("metrics " + a + " " + b + " --num_accelerators 2 --accelerator_type h200");
  EXPECT_EQ(table.status, 0);
  EXPECT_EQ(lines_of(table.output), 3) << table.output;
  const auto json = nlohmann::json::parse(stdout_of("metrics " + a + " " + b + " --num_accelerators 2 --json"));
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][1]["run"], "b");
  EXPECT_EQ(json["runs"][1]["step_seconds"]["mean"], 23.0);  // 6 to 40 s
  EXPECT_EQ(json["runs"][1]["step_seconds"]["chosen"], "steps 5 to 39, without the first 5");
  EXPECT_TRUE(json["runs"][1]["mfu"].is_null());
}

// The published figures of the log that comes with the reference tool.
TEST_F(MetricsTest, GoldenLogOfTheReferenceTool) {
  const std::string log = (golden_data() / "dllogger-gpt3-175b.json").string();
  const std::string call =
      "metrics --file " + log + " --batch_size 2048 --num_accelerators 256 --model_type gpt3-175b --accelerator_type h100";
  EXPECT_EQ(stdout_of(call), "Average step time: 25.39738855\nTFLOPS/Accelerator: 692.98463368\nMFU: 0.70069225\n");
  EXPECT_TRUE(contains(run_program(call).output, "warning: this run trained in FP8"));
  const auto fp8 = run_program(call + " --precision fp8");
  EXPECT_EQ(fp8.output, "Average step time: 25.39738855\nTFLOPS/Accelerator: 692.98463368\nMFU: 0.35034612\n");
}

// A run of our own, read by the rules of the reference tool written down a second time: every line is JSON after four bytes, the
// step is the word PARAMETER or an integer, and the mean is over the step times of 10 to 30.
TEST_F(MetricsTest, OurOwnLogByTheRulesOfTheReferenceTool) {
  const std::string run = folder_ / "run";
  const auto train = run_program(
      "train demo trainer.max_steps=14 trainer.val_check_interval=6 trainer.limit_val_batches=1 "
      "model.num_layers=1 model.hidden_size=32 model.micro_batch_size=1 model.global_batch_size=2 "
      "model.encoder_seq_length=16 exp_manager.explicit_log_dir=" +
      run);
  ASSERT_EQ(train.status, 0) << train.output;
  std::ifstream file(run + "/dllogger/rank-0/dllogger.json");
  double sum = 0;
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line.substr(4));
    if (record["step"] == "PARAMETER") continue;
    ASSERT_TRUE(record["step"].is_number_integer());
    const int64_t step = record["step"];
    if (step < 10 || step > 30) continue;
    sum += record["data"]["train_step_timing in s"].get<double>();
    count += 1;
  }
  ASSERT_EQ(count, 4);
  const double mean = sum / count, tflops = 3e9 * 2 / mean / 1 / 1e12;
  const std::string expected =
      fmt::format("Average step time: {:.8f}\nTFLOPS/Accelerator: {:.8f}\nMFU: {:.8f}\n", mean, tflops, tflops / 0.5);
  EXPECT_EQ(stdout_of("metrics --file " + run +
                      "/dllogger/rank-0/dllogger.json --batch_size 2 --num_accelerators 1 --model_flops 3e9 "
                      "--max_flops 0.5"),
            expected);
}

}  // namespace
}  // namespace trireme
