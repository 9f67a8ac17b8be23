// Launch files and site files: what is written is read back, and what cannot be meant is refused in one line.
#include "launch/launch_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class LaunchFileTest : public testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    return message_of<UserError>([&] { read_launch_file(folder_.write("launch.yaml", text)); });
  }
  std::string site_error_of(const std::string& text) {
    return message_of<UserError>([&] { read_site_file(folder_.write("site.yaml", text)); });
  }
  TemporaryFolder folder_;
};

// A value of the right kind for each option, so that a new option is covered at once.
Tree example_of(const LaunchOption& option) {
  if (std::holds_alternative<std::string LaunchOptions::*>(option.member)) return Tree(std::string("word"));
  if (std::holds_alternative<int64_t LaunchOptions::*>(option.member)) return Tree(int64_t{7});
  if (std::holds_alternative<bool LaunchOptions::*>(option.member)) return Tree(true);
  Tree::List list;
  list.emplace_back(std::string("A=1"));
  list.emplace_back(std::string("B=2"));
  return Tree(std::move(list));
}

TEST_F(LaunchFileTest, EveryOptionOfEveryTargetIsReadBack) {
  for (const TargetKind target : {TargetKind::local, TargetKind::slurm, TargetKind::kubernetes}) {
    LaunchRequest request{
        .target = target, .recipe = "gpt3/175b", .overrides = {"trainer.max_steps=40", "a.b=[1,2]"}, .options = {}};
    for (const LaunchOption& option : launch_option_table())
      if (is_for(option, target)) set_option(request.options, option, example_of(option));
    const LaunchRequest again = read_launch_file(folder_.write("launch.yaml", write_launch_file(request, folder_.path())));
    EXPECT_EQ(again.target, target);
    EXPECT_EQ(again.recipe, request.recipe);
    EXPECT_EQ(again.overrides, request.overrides);
    EXPECT_EQ(to_tree(again.options).text(), to_tree(request.options).text());
    EXPECT_EQ(write_launch_file(again, "/"), write_launch_file(request, "/"));
  }
}

TEST_F(LaunchFileTest, ARecipeThatIsAFileIsFoundFromTheFolderOfTheLaunchFile) {
  const std::string recipe = folder_.write("recipes/mine.yaml", "extends: demo\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const LaunchRequest request{.target = TargetKind::local, .recipe = "recipes/mine.yaml", .overrides = {}, .options = {}};
  const std::string text = write_launch_file(request, folder_ / "launches");
  std::filesystem::current_path(before);
  EXPECT_TRUE(contains(text, "recipe: ../recipes/mine.yaml"));
  EXPECT_EQ(read_launch_file(folder_.write("launches/a.yaml", text)).recipe, recipe);
}

TEST_F(LaunchFileTest, EveryOptionHasHelpAndAName) {
  for (const LaunchOption& option : launch_option_table()) {
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_NE(option.targets, 0) << option.name;
    EXPECT_EQ(find_launch_option(file_key(option)), &option);
    EXPECT_EQ(option.value.empty(), std::holds_alternative<bool LaunchOptions::*>(option.member)) << option.name;
  }
  EXPECT_EQ(find_launch_option("nowhere"), nullptr);
}

TEST_F(LaunchFileTest, MistakesAreOneLine) {
  const std::string start = "launch: 1\ntarget: slurm\nrecipe: demo\n";
  EXPECT_TRUE(contains(error_of("recipe: demo\n"), "it has no line `launch: 1`"));
  EXPECT_TRUE(
      contains(error_of("launch: 9\ntarget: slurm\nrecipe: demo\n"), "version 9, and this program reads versions up to 1"));
  EXPECT_TRUE(contains(error_of("launch: x\n"), "launch=x: use 1"));
  EXPECT_TRUE(contains(error_of("launch: 1\ntarget: moon\nrecipe: demo\n"), "use local, slurm or kubernetes"));
  EXPECT_TRUE(contains(error_of("launch: 1\ntarget: slurm\n"), "needs `target:` and `recipe:`"));
  EXPECT_TRUE(contains(error_of(start + "partiton: gpu\n"), "did you mean partition"));
  EXPECT_TRUE(contains(error_of(start + "nodes: many\n"), "nodes=many: use a number, 0 or more"));
  EXPECT_TRUE(contains(error_of(start + "nodes: -1\n"), "use a number, 0 or more"));
  EXPECT_TRUE(contains(error_of(start + "requeue: maybe\n"), "use true or false"));
  EXPECT_TRUE(contains(error_of(start + "partition: [a, b]\n"), "use one word"));
  EXPECT_TRUE(contains(error_of(start + "env: {A: [1]}\n"), "use one value for each name"));
  EXPECT_TRUE(contains(error_of(start + "overrides: a=1\n"), "use a list"));
  EXPECT_TRUE(contains(error_of("- 1\n"), "it has no keys"));
  EXPECT_TRUE(contains(error_of("launch: [\n"), "launch.yaml"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_launch_file((folder_ / "none.yaml").string()); }), "none.yaml"));
}

TEST_F(LaunchFileTest, AnOptionOfAnotherTargetIsRefused) {
  const LaunchRequest request =
      read_launch_file(folder_.write("launch.yaml", "launch: 1\ntarget: local\nrecipe: demo\npartition: gpu\n"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { require_for_target(request.options, request.target); }),
                       "partition has no effect on local"));
}

TEST_F(LaunchFileTest, SiteFilesAlsoHaveTheNamesOfTheNemoLauncher) {
  const GivenOptions site = read_site_file(folder_.write("site.yaml",
                                                         "container: /images/nemo.sqsh\n"
                                                         "container_mounts: [/data:/data, null]\n"
                                                         "env_vars: {NCCL_DEBUG: INFO, UNSET: null}\n"
                                                         "base_results_dir: /results\n"
                                                         "cluster: {partition: gpu, account: team, exclusive: true, mem: 0}\n"
                                                         "numa_mapping: {enable: true, mode: unique_contiguous, max_cores: 16}\n"
                                                         "qos: high\n"));
  EXPECT_EQ(site.values.image, "/images/nemo.sqsh");
  EXPECT_EQ(site.values.mounts, Texts{"/data:/data"});
  EXPECT_EQ(site.values.env, Texts{"NCCL_DEBUG=INFO"});
  EXPECT_EQ(site.values.results, "/results");
  EXPECT_EQ(site.values.partition, "gpu");
  EXPECT_EQ(site.values.account, "team");
  EXPECT_TRUE(site.values.exclusive);
  EXPECT_EQ(site.values.mem, "0");
  EXPECT_EQ(site.values.numa_mode, "unique_contiguous");
  EXPECT_EQ(site.values.numa_max_cores, 16);
  EXPECT_EQ(site.values.qos, "high");
  EXPECT_FALSE(read_site_file(folder_.write("off.yaml", "numa_mapping: {enable: false, mode: all}\n")).has("numa-mode"));
  EXPECT_TRUE(contains(site_error_of("acount: team\n"), "did you mean account"));
}

TEST_F(LaunchFileTest, WhatIsGivenCloserWinsAndListsAddUp) {
  GivenOptions near, far;
  set_option(near, *find_launch_option("partition"), Tree(std::string("near")));
  set_option(near, *find_launch_option("env"), Tree(std::string("A=near")));
  set_option(far, *find_launch_option("partition"), Tree(std::string("far")));
  set_option(far, *find_launch_option("account"), Tree(std::string("far")));
  set_option(far, *find_launch_option("env"), Tree(std::string("A=far")));
  add_below(near, far);
  EXPECT_EQ(near.values.partition, "near");
  EXPECT_EQ(near.values.account, "far");
  EXPECT_EQ(near.values.env, (Texts{"A=far", "A=near"}));  // the last one counts
}

TEST_F(LaunchFileTest, TheSiteFileIsNamedOrFoundInTheUsualPlaces) {
  const char* home = ::getenv("HOME");
  const std::string old_home = home == nullptr ? "" : home;
  ::unsetenv("TRIREME_SITE");
  ::setenv("HOME", folder_.path().c_str(), 1);
  EXPECT_EQ(find_site_file(""), "");
  const std::string usual = folder_.write(".config/trireme/site.yaml", "account: team\n");
  EXPECT_EQ(find_site_file(""), usual);
  ::setenv("TRIREME_SITE", "/elsewhere.yaml", 1);
  EXPECT_EQ(find_site_file(""), "/elsewhere.yaml");
  EXPECT_EQ(find_site_file("named.yaml"), "named.yaml");
  ::unsetenv("TRIREME_SITE");
  ::setenv("HOME", old_home.c_str(), 1);
}

}  // namespace
}  // namespace trireme
