// From a request to its jobs: names, sizes, checks before anything is submitted.
#include "launch/plan_launch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "base/error.h"
#include "launch/launch_name.h"
#include "launch/user_variables.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class PlanLaunch : public testing::Test {
 protected:
  PlanLaunch() { set("results", (folder_ / "results").string()); }
  ~PlanLaunch() override {
    for (const char* name : {"MODEL_NAME", "MODEL_SIZE", "NODES", "MAX_STEPS", "IMAGE", "JOB_NAME", "JOB_SUFFIX", "NNODES",
                             "JOB_COMPLETION_INDEX", "ENABLE_NSYS_PROFILE"})
      ::unsetenv(name);
  }
  void set(const std::string& name, const std::string& value) {
    set_option(request_.options, *find_launch_option(name), scalar_from_text(value));
  }
  void set_list(const std::string& name, const std::vector<std::string>& values) {
    Tree::List list;
    for (const std::string& value : values) list.emplace_back(std::string(value));
    set_option(request_.options, *find_launch_option(name), Tree(std::move(list)));
  }
  LaunchPlan plan(const std::string& site = "") { return plan_launch(request_, site.empty() ? no_site_ : site); }
  std::string error() {
    return message_of<UserError>([&] { plan(); });
  }

  TemporaryFolder folder_;
  std::string no_site_ = folder_.write("empty.yaml", "{}\n");
  LaunchRequest request_{.target = TargetKind::slurm, .recipe = "gpt3/175b", .overrides = {}, .options = {}};
};

TEST_F(PlanLaunch, OneNodeCountForScheduleAndRecipe) {
  set("nodes", "16");
  const LaunchPlan sixteen = plan();
  EXPECT_EQ(sixteen.name, "gpt3-175b16");
  ASSERT_EQ(sixteen.jobs.size(), 1u);
  EXPECT_EQ(sixteen.jobs[0].nodes, 16);
  EXPECT_EQ(sixteen.jobs[0].ranks_per_node, 8);
  EXPECT_TRUE(contains(sixteen.files.at(0).text, "num_nodes: 16"));
  request_.overrides = {"trainer.num_nodes=16"};
  EXPECT_EQ(plan().jobs[0].nodes, 16);
  request_.overrides = {"trainer.num_nodes=8"};
  EXPECT_EQ(error(), "--nodes 16 and trainer.num_nodes=8 disagree; give one of them");
  set("nodes", "0");
  EXPECT_EQ(error(), "--nodes 0: use 1 or more");
}

TEST_F(PlanLaunch, ThisMachineIsOneNode) {
  request_.target = TargetKind::local;
  EXPECT_TRUE(contains(error(), "is for 128 nodes and this is one machine"));
  request_.recipe = "demo";
  EXPECT_EQ(plan().jobs[0].nodes, 1);
  EXPECT_EQ(plan().name, "demo");
}

TEST_F(PlanLaunch, APodIsOneOfSeveralNodes) {
  request_.target = TargetKind::local;
  request_.recipe = "demo";
  ::setenv("JOB_COMPLETION_INDEX", "1", 1);
  ::setenv("NNODES", "4", 1);
  EXPECT_EQ(plan().jobs[0].nodes, 4);
  set("nodes", "2");
  EXPECT_TRUE(contains(error(), "--nodes 2 and NNODES=4 disagree"));
}

TEST_F(PlanLaunch, WhatTheRecipeCheckFindsIsFoundBeforeSubmitting) {
  set("nodes", "16");
  request_.overrides = {"model.tensor_model_parallel_size=3"};
  EXPECT_TRUE(contains(error(), "model.tensor_model_parallel_size"));
  request_.overrides = {"model.no_such_key=3"};
  EXPECT_TRUE(contains(error(), "no_such_key"));
  request_.overrides = {"not an override"};
  EXPECT_FALSE(error().empty());
}

TEST_F(PlanLaunch, MemoryIsCheckedAgainstTheNamedGpu) {
  set("nodes", "16");
  set("gpu", "h100");
  EXPECT_TRUE(std::ranges::any_of(plan().choices, [](const LaunchChoice& choice) { return choice.what.starts_with("memory "); }));
  request_.overrides = {"model.micro_batch_size=8", "model.virtual_pipeline_model_parallel_size=null"};
  EXPECT_TRUE(contains(error(), "too much"));
  set("gpu", "h1000");
  EXPECT_TRUE(contains(error(), "h1000"));
}

TEST_F(PlanLaunch, ASweepRunsWhatPassesTheChecks) {
  set("nodes", "16");
  set_list("sweep", {"model.tensor_model_parallel_size=3,4", "model.micro_batch_size=1,2"});
  const LaunchPlan sweep = plan();
  EXPECT_EQ(sweep.jobs.size(), 2u);
  ASSERT_EQ(sweep.sweep.size(), 4u);
  EXPECT_TRUE(sweep.sweep[0].job.empty());
  EXPECT_TRUE(contains(sweep.sweep[0].reason, "tensor_model_parallel_size"));
  EXPECT_EQ(sweep.sweep[2].job, sweep.jobs[0].name);
  EXPECT_NE(sweep.jobs[0].run_folder, sweep.jobs[1].run_folder);
  set_list("sweep", {"model.tensor_model_parallel_size=3,5"});
  EXPECT_TRUE(contains(error(), "no combination of the sweep passes the checks"));
}

TEST_F(PlanLaunch, StagesHangOnEachOther) {
  set("nodes", "16");
  set("data-recipe", "data/pile");
  set_list("stages", {"data_preparation", "training", "conversion"});
  const LaunchPlan stages = plan();
  ASSERT_EQ(stages.jobs.size(), 3u);
  EXPECT_EQ(stages.jobs[0].tasks.size(), 30u);
  EXPECT_EQ(stages.jobs[1].after, std::vector{stages.jobs[0].name});
  EXPECT_EQ(stages.jobs[2].after, std::vector{stages.jobs[1].name});
  set_list("sweep", {"model.micro_batch_size=1,2"});
  EXPECT_TRUE(contains(error(), "conversion does not go with --sweep"));
}

TEST_F(PlanLaunch, EvaluationScoresWhatWasTrained) {
  set("nodes", "16");
  set_list("stages", {"training,evaluation"});
  EXPECT_TRUE(contains(error(), "evaluation needs --tasks, such as arc_challenge,"));
  set_list("tasks", {"lambada,helaswag"});
  EXPECT_TRUE(contains(error(), "task helaswag is not known; did you mean hellaswag?"));
  set_list("tasks", {"lambada,hellaswag", "piqa"});
  const LaunchPlan stages = plan();
  ASSERT_EQ(stages.jobs.size(), 2u);
  const Job& job = stages.jobs[1];
  EXPECT_EQ(job.after, std::vector{stages.jobs[0].name});
  EXPECT_EQ(job.nodes, 1);
  EXPECT_EQ(job.ranks_per_node, stages.jobs[0].ranks_per_node);
  const std::string command = fmt::format("{}", fmt::join(job.command, " "));
  EXPECT_TRUE(contains(command, fmt::format("evaluate {0}/results --tasks lambada,hellaswag,piqa --data {0}/data --output "
                                            "{0}/evaluation/scores",
                                            stages.folder.string())))
      << command;
  set_list("sweep", {"model.micro_batch_size=1,2"});
  EXPECT_TRUE(contains(error(), "evaluation does not go with --sweep"));
}

TEST_F(PlanLaunch, NodesAreCheckedFirst) {
  set("nodes", "16");
  set("validate", "true");
  request_.target = TargetKind::slurm;
  const LaunchPlan on_slurm = plan();
  ASSERT_EQ(on_slurm.jobs.size(), 1u);  // in the allocation of the training
  EXPECT_TRUE(on_slurm.jobs[0].checks_nodes);
  request_.target = TargetKind::kubernetes;
  EXPECT_TRUE(contains(error(), "--validate: Kubernetes chooses the node of each pod"));
  request_.target = TargetKind::local;
  request_.recipe = "demo";
  set("nodes", "1");
  set("ranks", "2");
  set_list("stages", {"training,evaluation"});
  set_list("tasks", {"piqa"});
  const LaunchPlan here = plan();
  ASSERT_EQ(here.jobs.size(), 3u);
  EXPECT_EQ(here.jobs[0].stage, JobStage::validation);
  EXPECT_EQ(here.jobs[0].ranks_per_node, here.jobs[1].ranks_per_node);
  EXPECT_TRUE(contains(fmt::format("{}", fmt::join(here.jobs[0].command, " ")),
                       fmt::format(" validate --quick --results {0} --output {0}/validation", here.folder.string())));
  EXPECT_EQ(here.jobs[1].after, std::vector{here.jobs[0].name});
  EXPECT_EQ(here.jobs[2].after, std::vector{here.jobs[1].name});
  set_list("stages", {"evaluation"});
  EXPECT_TRUE(contains(error(), "--validate checks the nodes of a training, and stages has none"));
}

TEST_F(PlanLaunch, TheSiteFillsWhatTheCommandDoesNotGive) {
  set("nodes", "16");
  set("partition", "mine");
  const std::string site = folder_.write("site.yaml", "partition: theirs\naccount: team\nmap_by: ppr:8:node\n");
  const LaunchPlan with_site = plan(site);
  EXPECT_EQ(with_site.request.options.values.partition, "mine");
  EXPECT_EQ(with_site.request.options.values.account, "team");
  EXPECT_FALSE(with_site.request.options.has("map-by"));  // of another target
  EXPECT_TRUE(std::ranges::any_of(with_site.choices, [&](const LaunchChoice& choice) { return choice.what == "site " + site; }));
}

TEST_F(PlanLaunch, ImagesHaveTheProgramAndNeedARuntimeHere) {
  set("nodes", "16");
  set("image", "/images/trireme.sqsh");
  const LaunchPlan in_image = plan();
  EXPECT_EQ(in_image.jobs[0].command.front(), "trireme");
  EXPECT_EQ(in_image.jobs[0].container->runtime, "pyxis");
  request_.target = TargetKind::local;
  request_.recipe = "demo";
  set("nodes", "1");
  EXPECT_TRUE(contains(error(), "needs a runtime on this machine"));
}

TEST_F(PlanLaunch, NamesFitEveryTarget) {
  EXPECT_EQ(default_name("gpt3/175b", 16), "gpt3-175b16");
  EXPECT_EQ(default_name("gpt3/175b-fp8", 32), "gpt3-175b-fp8-32") << "not fp832";
  EXPECT_EQ(default_name("/tmp/My Recipe_v2.yaml", 1), "my-recipe-v2");
  EXPECT_EQ(default_name("..", 1), "run");
  const auto refusal = [](const std::string& name, TargetKind target) {
    return message_of<UserError>([&] { require_launch_name(name, target); });
  };
  for (const TargetKind target : {TargetKind::local, TargetKind::slurm, TargetKind::kubernetes}) {
    for (const char* name : {"a", "gpt3-175b16", "0"}) require_launch_name(name, target);
    for (const std::string& name : {std::string(""), std::string("-a"), std::string("a-"), std::string("../a"),
                                    std::string("a b"), std::string("."), std::string(49, 'a')})
      EXPECT_TRUE(contains(refusal(name, target), "use at most 48 l")) << name;
  }
  // As scripts of others make them, where nothing is in the way.
  for (const char* name : {"gpt3-175b16-nccl_stock", "5d03ce562800_20250624_111140", "Run.2"}) {
    require_launch_name(name, TargetKind::local);
    require_launch_name(name, TargetKind::slurm);
    EXPECT_TRUE(contains(refusal(name, TargetKind::kubernetes), "use at most 48 lower case letters, digits and dashes")) << name;
  }
}

TEST_F(PlanLaunch, VariablesOfTheAwsScriptsAreOptions) {
  request_.recipe.clear();
  ::setenv("MODEL_NAME", "gpt3", 1);
  ::setenv("MODEL_SIZE", "5b", 1);
  ::setenv("NODES", "4", 1);
  ::setenv("MAX_STEPS", "40", 1);
  ::setenv("IMAGE", "/images/a.sqsh", 1);
  ::setenv("JOB_SUFFIX", "-efa", 1);
  ::setenv("ENABLE_NSYS_PROFILE", "true", 1);
  const auto choices = apply_environment(request_);
  EXPECT_EQ(request_.recipe, "gpt3/5b");
  EXPECT_EQ(request_.overrides.front(), "trainer.max_steps=40");
  EXPECT_EQ(request_.overrides.size(), 3u);  // with the profiled steps
  EXPECT_EQ(request_.options.values.nodes, 4);
  EXPECT_EQ(request_.options.values.image, "/images/a.sqsh");
  EXPECT_EQ(request_.options.values.name, "gpt3-5b4-efa");
  EXPECT_TRUE(request_.options.values.nsys);
  EXPECT_EQ(choices.size(), 8u);  // with the profiled steps
}

TEST_F(PlanLaunch, SettingsMayStandInPlaceOfARecipeThatAVariableNames) {
  ::setenv("MODEL_SIZE", "5b", 1);
  request_.recipe = "model.seed=3";
  request_.overrides = {"trainer.max_steps=2"};
  apply_environment(request_);
  EXPECT_EQ(request_.recipe, "gpt3/5b");
  EXPECT_EQ(request_.overrides, (std::vector<std::string>{"model.seed=3", "trainer.max_steps=2"}));
  request_.recipe = "training=gpt3/126m";
  apply_environment(request_);
  EXPECT_EQ(request_.recipe, "training=gpt3/126m");
}

TEST_F(PlanLaunch, AVariableThatDiffersFromAnOptionIsRefused) {
  set("nodes", "16");
  ::setenv("NODES", "16", 1);
  apply_environment(request_);
  ::setenv("NODES", "4", 1);
  EXPECT_TRUE(contains(message_of<UserError>([&] { apply_environment(request_); }), "NODES=4 in the environment differ"));
}

}  // namespace
}  // namespace trireme
