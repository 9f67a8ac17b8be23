// Sweeps and stages: which jobs a launch has.
#include "launch/sweep.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "launch/stages.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Points = std::vector<std::vector<std::string>>;

TEST(Sweep, IsEveryCombinationWithTheLastKeyFastest) {
  EXPECT_EQ(sweep_points({}), Points{{}});
  EXPECT_EQ(sweep_points({"a=1,2", "b=x,y"}), (Points{{"a=1", "b=x"}, {"a=1", "b=y"}, {"a=2", "b=x"}, {"a=2", "b=y"}}));
}

TEST(Sweep, BracketsAndQuotesKeepTheirCommas) {
  EXPECT_EQ(sweep_points({"a=[1,2],[3]"}), (Points{{"a=[1,2]"}, {"a=[3]"}}));
  EXPECT_EQ(sweep_points({"a='x,y',{k: 1, l: 2}"}), (Points{{"a='x,y'"}, {"a={k: 1, l: 2}"}}));
}

TEST(Sweep, MistakesAreOneLine) {
  const auto error_of = [](const std::vector<std::string>& sweeps) {
    return message_of<UserError>([&] { sweep_points(sweeps); });
  };
  for (const char* text : {"a", "a=", "a=1,,2", "=1,2"}) EXPECT_TRUE(contains(error_of({text}), "write KEY=A,B,C")) << text;
  EXPECT_TRUE(contains(error_of({"a=1,2", "a=3"}), "a is swept twice"));
  std::string many = "a=0";
  for (int i = 1; i < 40; ++i) many += "," + std::to_string(i);
  EXPECT_TRUE(contains(error_of({many, "b" + many}), "more than 1000 combinations"));
}

TEST(Stages, AreThoseNamedElseTheLaunchersElseTraining) {
  EXPECT_EQ(stages_of({}, {}), std::vector{JobStage::training});
  EXPECT_EQ(stages_of({"training,data_preparation"}, {}), (std::vector{JobStage::data_preparation, JobStage::training}));
  const LauncherRequest launcher{.no_training = "run_training is false", .stages = {"conversion"}, .not_followed = {}};
  EXPECT_EQ(stages_of({}, launcher), std::vector{JobStage::conversion});
  EXPECT_EQ(stages_of({"training"}, launcher), std::vector{JobStage::training});
}

TEST(Stages, UnknownOnesAndNoneAreRefused) {
  EXPECT_TRUE(contains(message_of<UserError>([] { stages_of({"trainin"}, {}); }), "trainin is not available"));
  const LauncherRequest launcher{.no_training = "run_training is false", .stages = {}, .not_followed = {}};
  EXPECT_TRUE(contains(message_of<UserError>([&] { stages_of({}, launcher); }), "run_training is false"));
}

TEST(Stages, DataPreparationHasOneTaskPerFile) {
  const auto tasks = data_tasks("data/pile", "/data", "");
  ASSERT_EQ(tasks.size(), 30u);
  EXPECT_EQ(tasks[0], (std::vector<std::string>{"--files", "0"}));
  EXPECT_EQ(tasks[29], (std::vector<std::string>{"--files", "29"}));
  EXPECT_EQ(data_tasks("data/pile", "/data", "3-5").size(), 3u);
  EXPECT_TRUE(contains(message_of<UserError>([] { data_tasks("data/pile", "/data", "3-x"); }), "3-x"));
}

}  // namespace
}  // namespace trireme
