// A run in fp16, from its first overflows on: what it says, what its logs have, and that it resumes with the same bits.
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/small_run.h"

namespace trireme {
namespace {

constexpr const char* kFp16 =
    "trainer.precision=16 model.optim.sched.name=constant model.optim.sched.warmup_steps=8 trainer.val_check_interval=null ";

class Fp16RunTest : public SmallRun {
 protected:
  // What DLLogger's file has of a step, as text, so that equal text is equal bits.
  struct LoggedStep {
    std::string loss, rate, scale;
    bool operator==(const LoggedStep&) const = default;
    friend void PrintTo(const LoggedStep& step, std::ostream* out) {
      *out << "loss " << step.loss << ", lr " << step.rate << ", scale " << step.scale;
    }
  };
  std::map<int64_t, LoggedStep> steps_of(const std::string& run) const {
    const auto value = [](const std::string& line, const std::string& name) -> std::string {
      std::smatch found;
      return std::regex_search(line, found, std::regex("\"" + name + "\": ([^,}]+)")) ? found[1].str() : "";
    };
    std::map<int64_t, LoggedStep> steps;
    std::istringstream lines(text_of(run + "/dllogger/rank-0/dllogger.json"));
    for (std::string line; std::getline(lines, line);)
      if (const std::string loss = value(line, "reduced_train_loss"); !loss.empty())
        steps[std::stoll(value(line, "step"))] = {loss, value(line, "lr"), value(line, "loss_scale")};
    return steps;
  }

  // Counted from 0; the lines count from 1.
  static std::set<int64_t> skipped_steps(const std::string& output) {
    std::set<int64_t> skipped;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("step ") && contains(line, "SKIPPED")) skipped.insert(std::stoll(line.substr(5)) - 1);
    return skipped;
  }
};

TEST_F(Fp16RunTest, SaysWhatItSkipsAndHoldsTheLearningRate) {
  const auto result = run_program(train("run", std::string(kFp16) + "trainer.max_steps=24"));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "fp16 with f32 masters and loss scaling"));
  EXPECT_TRUE(contains(result.output, "SKIPPED gradient of ")) << result.output;
  EXPECT_TRUE(contains(result.output, " with loss scale 4.29497e+09")) << result.output;

  const auto steps = steps_of("run");
  ASSERT_EQ(steps.size(), 24u);
  const std::set<int64_t> skipped = skipped_steps(unwrapped(result.output));
  for (int64_t step = 0; step + 1 < 24; ++step) {
    const LoggedStep &now = steps.at(step), &next = steps.at(step + 1);
    const int64_t updates = step + 1 - static_cast<int64_t>(std::distance(skipped.begin(), skipped.upper_bound(step)));
    const bool warms_up = updates <= 8;
    EXPECT_EQ(now.rate == next.rate, skipped.contains(step) || !warms_up) << step;
    EXPECT_LE(std::stod(next.scale), std::stod(now.scale)) << step;
  }
  EXPECT_EQ(std::stod(steps.at(0).scale), 4294967296.0);
  EXPECT_GT(skipped.size(), 3u);
  EXPECT_LT(skipped.size(), 20u);
  const auto summary = nlohmann::json::parse(text_of("run/summary.json"));
  EXPECT_EQ(summary.at("left_out_steps").at("skipped"), skipped.size());
  EXPECT_EQ(summary.at("loss_scale").get<double>(), std::stod(steps.at(23).scale));
  EXPECT_TRUE(contains(result.output, fmt::format("{} skipped", skipped.size())));
}

TEST_F(Fp16RunTest, ResumesWithTheSameBits) {
  const std::string settings = std::string(kFp16) + "model.native_amp_growth_interval=3 ";
  ASSERT_EQ(run_program(train("whole", settings + "trainer.max_steps=30")).status, 0);
  ASSERT_EQ(run_program(train("parts", settings + "trainer.max_steps=17")).status, 0);
  const auto resumed = run_program(train("parts", settings + "trainer.max_steps=30 --resume"));
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(contains(resumed.output, "resumed from step 17"));
  const auto whole = steps_of("whole"), parts = steps_of("parts");
  for (int64_t step = 17; step < 30; ++step) EXPECT_EQ(parts.at(step), whole.at(step)) << step;
}

// Overflow is usual in fp16: only a loss that is not finite is a fault.
TEST_F(Fp16RunTest, StopsForTheLossOnly) {
  const auto result = run_program(train("run", std::string(kFp16) + "trainer.max_steps=4 trainer.on_nonfinite=stop"));
  EXPECT_EQ(result.status, 0) << result.output;
  const auto lost = run_program(
      train("lost", std::string(kFp16) + "trainer.max_steps=40 trainer.on_nonfinite=stop "
                                         "model.native_amp_init_scale=256 model.optim.lr=100 model.optim.weight_decay=100"));
  EXPECT_EQ(lost.status, 1) << lost.output;
  EXPECT_TRUE(contains(lost.output, "loss is "));
}

TEST_F(Fp16RunTest, IsSampledAndExported) {
  ASSERT_EQ(run_program(train("run", std::string(kFp16) + "trainer.max_steps=20")).status, 0);
  const std::string run = (folder_ / "run").string();
  const auto sampled = run_program("generate " + run + " --prompt line --tokens 4");
  EXPECT_EQ(sampled.status, 0) << sampled.output;
  const auto exported = run_program("export " + run + " --to hf --output " + (folder_ / "hf").string());
  EXPECT_EQ(exported.status, 0) << exported.output;
  EXPECT_TRUE(contains(text_of("hf/config.json"), "float16"));
}

}  // namespace
}  // namespace trireme
