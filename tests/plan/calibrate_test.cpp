// Catalogues, files of measured runs, and what the fit of the planner's constants is worth.
#include "plan/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/catalogue.h"
#include "plan/nelder_mead.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr const char* kHeader =
    "profile,use,source,model,layers,hidden,heads,ffn,vocab,seq,gpu,gpus,nodes_net,tp,sp,pp,vp,cp,mbs,gbs,recompute,precision,"
    "step_time_s,notes\n";

std::string run_line(const std::string& use, int64_t micro_batch, double seconds, const std::string& gpus = "16") {
  return fmt::format(
      "megatron-2023-a100,{},\"a, b\",gpt-small,8,1024,16,4096,51200,2048,A100-80,{},4xHDR200,2,0,2,,1,{},64,full,fp16,{},\n",
      use, gpus, micro_batch, seconds);
}

std::string error_of(const std::string& content) {
  const TemporaryFolder folder;
  const std::string path = folder.write("runs.csv", content);
  try {
    prepare_runs(path, profiles_of(PlannerConstants::shipped()));
  } catch (const UserError& error) {
    return std::string(error.what()).substr(path.size());
  }
  return "";
}

std::string profile_error(const std::string& content) {
  const TemporaryFolder folder;
  try {
    load_software_profile(folder.write("mine.yaml", content));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(CatalogueTest, EveryShippedFileLoads) {
  const PlannerConstants constants = PlannerConstants::shipped();
  EXPECT_GE(constants.platforms.size(), 20);
  for (const char* name : {"megatron-deepspeed-2021", "megatron-2022", "megatron-2023-a100", "nemo-22", "nemo-24", "nemo-25",
                           "megatron-core-2025", "mlperf-v3", "mlperf-v4", "mlperf-v5", "trireme"})
    EXPECT_TRUE(constants.software.contains(name)) << name;
  for (const std::string& name : catalogue_names("hardware/gpus")) EXPECT_GT(load_gpu(name).bf16_tflops, 0) << name;
}

TEST(CatalogueTest, AWrongFileIsAnsweredInOneLine) {
  const TemporaryFolder folder;
  const auto platform_error = [&](const std::string& content) {
    try {
      load_platform(folder.write("mine.yaml", content));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string valid =
      "gpu: h100-80\ngpus_per_node: 8\nnvlink_domain: 8\nnvlink_bandwidth: 450\nnvlink_latency_us: 4\nnetwork_bandwidth: 50\n"
      "network_latency_us: 7\n";
  EXPECT_EQ(platform_error(valid), "");
  EXPECT_NE(platform_error(valid + "speed: 3\n").find("speed is not a key here"), std::string::npos);
  EXPECT_NE(platform_error(valid + "oversubscription: fast\n").find("expected a number"), std::string::npos);
  EXPECT_NE(platform_error("gpu: h100-80\n").find("gpus_per_node is missing"), std::string::npos);
  EXPECT_NE(platform_error("- 1\n").find("it has no keys"), std::string::npos);
  EXPECT_NE(profile_error("attention: fast\n").find("attention=fast; use unfused or flash"), std::string::npos);
  EXPECT_NE(profile_error("attention: flash\nfitted: [speed]\n").find("speed is not a constant"), std::string::npos);
  EXPECT_NE(profile_error("attention: flash\nconstants:\n  gemm: -1\n").find("at least 0"), std::string::npos);
}

TEST(PublishedRunsTest, ABadRowIsNamedByItsLineAndColumn) {
  const std::string good = kHeader + run_line("scored", 2, 1.5);
  EXPECT_EQ(error_of(good), "");
  EXPECT_EQ(error_of(good + run_line("scored", 2, 1.5, "many")), ":3: gpus=many: expected a whole number of at least 1");
  EXPECT_EQ(error_of(good + run_line("scored", 2, 1.5, "")), ":3: gpus=nothing: expected a whole number of at least 1");
  EXPECT_EQ(error_of(good + run_line("scored", 2, -1)), ":3: step_time_s=-1: expected seconds above 0");
  EXPECT_EQ(error_of(good + run_line("maybe", 2, 1)), ":3: use=maybe: use scored or reported");
  EXPECT_EQ(error_of(good + run_line("scored", 3, 1)), ":3: gbs=64 is not a multiple of mbs=3 x 4 data parallel ranks");
  EXPECT_EQ(error_of(good + "one,two\n"), ":3: 2 values, and the header has 24 columns");
  EXPECT_EQ(error_of(kHeader), " has no runs");
  EXPECT_EQ(error_of("a,b\n1,2\n"), " has no column profile; it needs the columns of published runs");
}

TEST(PublishedRunsTest, AReportedRunThatCannotBePredictedIsListed) {
  const TemporaryFolder folder;
  const std::string path = folder.write("runs.csv", kHeader + run_line("scored", 2, 1.5) + run_line("reported", 2, 1.5, ""));
  const PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(path, profiles_of(constants));
  const Evaluation evaluation = evaluate(runs, [&](const PreparedRun& run) { return constants.predict(run); });
  const nlohmann::ordered_json json = json_of(evaluation);
  EXPECT_EQ(json["summary"]["runs"], 1);
  ASSERT_EQ(json["rows"].size(), 2);
  EXPECT_EQ(json["rows"][0]["source"], "a, b");
  EXPECT_GT(json["rows"][0]["predicted_s"].get<double>(), 0);
  EXPECT_TRUE(json["rows"][1]["predicted_s"].is_null());
  EXPECT_EQ(json["rows"][1]["missing"], "gpus is not given");
}

TEST(EvaluateTest, MeanAndNinetiethPercentileAreOfAbsoluteErrors) {
  const ErrorSummary summary = summarise({1, 2, 3, 4, 5, 6, 7, 8, 9, 100});
  EXPECT_EQ(summary.runs, 10);
  EXPECT_DOUBLE_EQ(summary.mean_pct, 14.5);
  EXPECT_DOUBLE_EQ(summary.p90_pct, 9);
  EXPECT_EQ(summarise({}).runs, 0);
}

// At a bound the simplex becomes flat, so the fit starts again from the best values, round after round.
TEST(NelderMeadTest, FindsAMinimumWithinBounds) {
  const auto bowl = [](double x, double y) {
    return [x, y](const std::vector<double>& at) { return std::pow(at[0] - x, 2) + 3 * std::pow(at[1] - y, 2); };
  };
  const auto search = [](const auto& function) {
    std::vector<Variable> at{{.value = 1, .low = 0, .high = 2}, {.value = 1, .low = 0, .high = 4}};
    for (int round = 0; round < 6; ++round) {
      const std::vector<double> best = minimise(at, function, 100);
      for (size_t i = 0; i < at.size(); ++i) at[i].value = best[i];
    }
    return at;
  };
  const std::vector<Variable> inside = search(bowl(0.7, 3));
  EXPECT_NEAR(inside[0].value, 0.7, 1e-3);
  EXPECT_NEAR(inside[1].value, 3, 1e-3);
  const std::vector<Variable> at_bound = search(bowl(0.7, 9));
  EXPECT_NEAR(at_bound[0].value, 0.7, 0.05);
  EXPECT_EQ(at_bound[1].value, 4);
}

// Runs measured by the model itself, with another speed of GEMMs.
TEST(CalibrateTest, RecoversAConstantThatMadeTheRuns) {
  const TemporaryFolder folder;
  PlannerConstants constants = PlannerConstants::shipped();
  for (auto& [name, platform] : constants.platforms) platform.gpu.fitted.clear();
  for (auto& [name, software] : constants.software) software.fitted.clear();
  SoftwareProfile& software = constants.software.at("megatron-2023-a100");
  software.fitted = {Constant::gemm}, software[Constant::host] = 0;
  PlannerConstants truth = constants;
  truth.software.at("megatron-2023-a100")[Constant::gemm] = 0.6;
  std::string content = kHeader;
  for (const int64_t micro_batch : {1, 2, 4, 8}) content += run_line("scored", micro_batch, 1);
  std::vector<PreparedRun> runs = prepare_runs(folder.write("runs.csv", content), profiles_of(constants));
  for (PreparedRun& run : runs) run.run.step_seconds = truth.predict(run);
  const Calibration calibration = calibrate(runs, constants, 2);
  ASSERT_EQ(calibration.free.size(), 1);
  EXPECT_NEAR(calibration.free[0].value, 0.6, 0.01);
  EXPECT_EQ(calibration.free[0].runs, 4);
  EXPECT_LT(calibration.fitted.summary().mean_pct, 0.5);
  EXPECT_GT(calibration.constant_share.summary().mean_pct, 1);
  EXPECT_NE(report_of(calibration).find("1 free constants"), std::string::npos);
}

TEST(CalibrateTest, ShippedConstantsPredictPublishedRuns) {
  const std::filesystem::path path = std::filesystem::path(TRIREME_SOURCE_DIR) / "../shared/facts/published-runs.csv";
  if (!std::filesystem::exists(path)) SKIP_FOR(data) << "published-runs.csv is not beside the sources";
  const PlannerConstants constants = PlannerConstants::shipped();
  const std::vector<PreparedRun> runs = prepare_runs(path.string(), profiles_of(constants));
  const Evaluation ours = evaluate(runs, [&](const PreparedRun& run) { return constants.predict(run); });
  const ErrorSummary summary = ours.summary();
  EXPECT_EQ(summary.runs, 179);
  EXPECT_LE(summary.mean_pct, 5.05);
  EXPECT_LE(summary.p90_pct, 12);
  EXPECT_LE(ours.mean_of_profiles(), 6);
  EXPECT_LE(ours.summary(is_hopper_or_newer).mean_pct, 6);
  EXPECT_LE(summary.mean_pct, evaluate_constant_share(runs, constants).summary().mean_pct / 2);
}

}  // namespace
}  // namespace trireme
