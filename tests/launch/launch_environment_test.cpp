// The environment of the ranks: network profiles, what the user's own environment has, --env, mounts.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "base/error.h"
#include "launch/environment.h"
#include "launch/network_profile.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

std::string value_in(const std::vector<EnvironmentVariable>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &EnvironmentVariable::name);
  return found == all.end() ? "(not set)" : found->value;
}

TEST(NetworkProfiles, AllShippedOnesLoad) {
  EXPECT_EQ(shipped_networks(), (std::vector<std::string>{"azure-ib", "efa", "ib", "roce", "tcp", "tcpx", "tcpxo"}));
  for (const std::string& name : shipped_networks()) {
    const NetworkProfile profile = load_network_profile(name);
    EXPECT_FALSE(profile.summary.empty()) << name;
    EXPECT_FALSE(profile.environment.empty()) << name;
  }
  EXPECT_EQ(value_in(load_network_profile("tcpxo").environment, "NCCL_FASTRAK_CTRL_DEV"), "eth0");
}

TEST(NetworkProfiles, AFileIsTakenAsItIs) {
  const TemporaryFolder folder;
  const NetworkProfile own =
      load_network_profile(folder.write("own.yaml", "summary: ours\nenv: {NCCL_ALGO: Ring, N: \"010\"}\n"));
  EXPECT_EQ(own.name, "own");
  EXPECT_EQ(value_in(own.environment, "NCCL_ALGO"), "Ring");
  EXPECT_EQ(value_in(own.environment, "N"), "010");
}

TEST(NetworkProfiles, MistakesAreOneLine) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(message_of<UserError>([] { load_network_profile("tcpxx"); }), "use azure-ib, efa"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_network_profile(folder.write("a.yaml", "environ: {}\n")); }),
                       "environ is not a key of a network profile"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_network_profile(folder.write("b.yaml", "- 1\n")); }), "it has no keys"));
  EXPECT_FALSE(message_of<UserError>([&] { load_network_profile((folder / "none.yaml").string()); }).empty());
}

class LaunchEnvironment : public testing::Test {
 protected:
  ~LaunchEnvironment() override { ::unsetenv("NCCL_ALGO"), ::unsetenv("TRIREME_TEST_WORD"); }
  std::vector<EnvironmentVariable> of(const LaunchOptions& options) {
    LaunchRequest request;
    request.options.values = options;
    return launch_environment(request, choices_);
  }
  std::vector<LaunchChoice> choices_;
};

TEST_F(LaunchEnvironment, TheUsersOwnValueWinsAndIsSaid) {
  ::setenv("NCCL_ALGO", "Tree", 1);
  LaunchOptions options;
  options.network = "tcpx";
  EXPECT_EQ(value_in(of(options), "NCCL_ALGO"), "Tree");
  EXPECT_TRUE(std::ranges::any_of(choices_, [](const LaunchChoice& choice) { return choice.what == "NCCL_ALGO=Tree"; }));
  options.env = {"NCCL_ALGO=Ring,Tree"};
  EXPECT_EQ(value_in(of(options), "NCCL_ALGO"), "Ring,Tree");
}

TEST_F(LaunchEnvironment, ANameAloneTakesItsValueFromHere) {
  ::setenv("TRIREME_TEST_WORD", "here = there", 1);
  LaunchOptions options;
  options.env = {"TRIREME_TEST_WORD", "EMPTY="};
  EXPECT_EQ(value_in(of(options), "TRIREME_TEST_WORD"), "here = there");
  EXPECT_EQ(value_in(of(options), "EMPTY"), "");
}

TEST_F(LaunchEnvironment, MistakesAreOneLine) {
  LaunchOptions options;
  for (const char* text : {"=1", "1A=2", "A-B=1", "A B"}) {
    options.env = {text};
    EXPECT_TRUE(contains(message_of<UserError>([&] { of(options); }), "use NAME=VALUE")) << text;
  }
  options.env = {"TRIREME_NOT_SET"};
  EXPECT_TRUE(contains(message_of<UserError>([&] { of(options); }), "it is not set here"));
}

TEST_F(LaunchEnvironment, MountsAreAbsolute) {
  LaunchOptions options;
  options.mounts = {"/a:/b", "/c"};
  options.data = "/data";
  EXPECT_EQ(mounts_of(options), (std::vector<Mount>{{"/a", "/b"}, {"/c", "/c"}, {"/data", "/data"}}));
  options.mounts = {"a:/b"};
  EXPECT_TRUE(contains(message_of<UserError>([&] { mounts_of(options); }), "use absolute paths"));
}

}  // namespace
}  // namespace trireme
