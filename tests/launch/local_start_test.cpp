// What starts the ranks of a job on this machine: argument lists, environments, GPUs, containers, logs; nothing is started.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "launch/local/container_start.h"
#include "launch/local/gpu_list.h"
#include "launch/local/job_state.h"
#include "launch/local/process_id.h"
#include "launch/local/rank_logs.h"
#include "launch/local/rank_start.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string value_in(const std::vector<EnvironmentVariable>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &EnvironmentVariable::name);
  return found == all.end() ? "-" : found->value;
}

TEST(LocalStart, MpirunStartsRanksThatBindThemselves) {
  const LocalJob job{.name = "demo", .starter = RankStarter::mpirun, .ranks = 4, .world = 4};
  const std::string words = joined(
      start_command(job, {.program = "/bin/trireme", .launch_file = "/r/local.json", .socket = "s", .port = 0, .resumes = true}));
  EXPECT_TRUE(contains(words, "mpirun -n 4 --oversubscribe --bind-to none "));
  EXPECT_EQ(words.find("--allow-run-as-root") != std::string::npos, ::geteuid() == 0);
  EXPECT_TRUE(words.ends_with("/bin/trireme launch start-rank /r/local.json demo s --resume")) << words;
  EXPECT_EQ(value_in(rank_environment(job, {}, 1), "RANK"), "-") << "mpirun tells its ranks";
}

TEST(LocalStart, RanksWithoutMpirunMeetOverTcp) {
  const LocalJob job{.name = "demo", .ranks = 4, .world = 4, .environment = {{"A", "b"}}};
  const auto environment = rank_environment(job, {.port = 4711}, 3);
  for (const auto& [name, value] : {std::pair{"RANK", "3"},
                                    {"WORLD_SIZE", "4"},
                                    {"LOCAL_RANK", "3"},
                                    {"LOCAL_WORLD_SIZE", "4"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "4711"},
                                    {"A", "b"}})
    EXPECT_EQ(value_in(environment, name), value) << name;
  EXPECT_EQ(value_in(rank_environment({.ranks = 1, .world = 1}, {}, 0), "RANK"), "-") << "one rank is alone";
}

TEST(LocalStart, PodsNumberTheirRanksAfterThoseOfEarlierPods) {
  const LocalJob job{.name = "demo", .ranks = 8, .first_rank = 16, .world = 32};
  const auto environment = rank_environment(job, {}, 5);
  EXPECT_EQ(value_in(environment, "RANK"), "21");
  EXPECT_EQ(value_in(environment, "WORLD_SIZE"), "32");
  EXPECT_EQ(value_in(environment, "LOCAL_WORLD_SIZE"), "8");
  EXPECT_EQ(value_in(environment, "MASTER_ADDR"), "-") << "the pod has it";
}

TEST(LocalStart, ALaunchIsReadAsItWasWritten) {
  const LocalLaunch launch{.max_restarts = 5,
                           .jobs = {{.name = "d",
                                     .stage = JobStage::data_preparation,
                                     .command = {"trireme", "data"},
                                     .tasks = {{"a b"}, {"c"}},
                                     .tasks_at_once = 2},
                                    {.name = "t",
                                     .starter = RankStarter::container,
                                     .may_use_mpirun = true,
                                     .command = {"trireme"},
                                     .ranks = 2,
                                     .first_rank = 4,
                                     .world = 8,
                                     .environment = {{"K", "v=\"1\""}},
                                     .bindings = {{{0, 2}, {1}}, {{}, {}}},
                                     .container = {"docker", "run"},
                                     .container_removal = {"docker", "rm"},
                                     .folder = "/r",
                                     .run_folder = "/r/results",
                                     .resume = {"--resume"},
                                     .resumes_at_once = true,
                                     .after = {"d"}}}};
  const TemporaryFolder folder;
  const std::string text = write_local_launch(launch);
  EXPECT_EQ(write_local_launch(read_local_launch(folder.write("local.json", text))), text);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { read_local_launch(folder.write("half.json", text.substr(0, 99))); }), "is damaged"));
}

TEST(LocalGpus, LocalRankKUsesTheKth) {
  EXPECT_EQ(choose_gpus("2,3,4,5", nullptr, 8, 4).visible, "2,3,4,5");
  EXPECT_EQ(choose_gpus("2,3,4,5", nullptr, 8, 2).of_rank, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(choose_gpus("", "6,1", 2, 2).of_rank, (std::vector<int64_t>{6, 1}));
  EXPECT_EQ(choose_gpus("", nullptr, 8, 2).visible, "") << "all are visible, and ranks take the first ones";
  EXPECT_TRUE(choose_gpus("", "GPU-1,GPU-2", 2, 2).of_rank.empty());
}

TEST(LocalGpus, WrongListsAreOneLine) {
  const auto message = [](const char* option, const char* variable, int64_t visible, int64_t ranks) {
    return message_of<UserError>([&] { choose_gpus(option, variable, visible, ranks); });
  };
  EXPECT_EQ(message("0,9", nullptr, 8, 2), "--gpus 0,9: this machine has 8 GPUs, counted from 0");
  EXPECT_EQ(message("0", nullptr, 0, 1), "--gpus 0: this machine has 0 GPUs");
  EXPECT_EQ(message("1,1", nullptr, 8, 2), "--gpus 1,1: 1 is there twice, and every rank needs a GPU of its own");
  EXPECT_TRUE(contains(message("a", nullptr, 8, 1), "\"a\" is not the number of a GPU"));
  EXPECT_TRUE(contains(message("1,", nullptr, 8, 1), "\"\" is not the number of a GPU"));
  EXPECT_TRUE(
      contains(message("0,1", nullptr, 8, 4), "4 ranks and 2 GPUs in --gpus 0,1: every rank needs its own; use --ranks 2"));
  EXPECT_TRUE(contains(message("", nullptr, 2, 4), "4 ranks and 2 GPUs on this machine"));
  EXPECT_TRUE(contains(message("3", "0,1", 2, 1), "3 is not in CUDA_VISIBLE_DEVICES=0,1"));
}

Container image_of(const std::string& runtime, const std::string& image) {
  return {.runtime = runtime, .image = image, .mounts = {{"/data", "/data"}, {"/r", "/out"}}};
}

std::string container_words(const std::string& runtime, const std::string& image, const ContainerDevices& devices) {
  return joined(container_start(image_of(runtime, image), "run-1", {{"K", "v"}}, devices).start);
}

TEST(LocalContainer, EveryRuntimeGetsGpusSharedMemoryNetworkAndMounts) {
  const ContainerDevices devices{.gpus = 2, .has_infiniband = true};
  EXPECT_EQ(container_words("docker", "a/b:1", devices),
            "docker run --rm --interactive --name run-1 --network=host --ipc=host --ulimit=memlock=-1 --ulimit=stack=67108864 "
            "--gpus all "
            "--device /dev/infiniband --volume /data:/data --volume /r:/out --env K=v a/b:1");
  EXPECT_EQ(container_words("podman", "a/b:1", devices),
            "podman run --rm --interactive --name run-1 --network=host --ipc=host --ulimit=memlock=-1 --ulimit=stack=67108864 "
            "--device nvidia.com/gpu=all --device /dev/infiniband --volume /data:/data --volume /r:/out --env K=v a/b:1");
  EXPECT_EQ(container_words("ctr", "docker.io/a/b:1", devices),
            "ctr run --rm --net-host --gpus 0 --gpus 1 --device /dev/infiniband "
            "--mount type=bind,src=/dev/shm,dst=/dev/shm,options=rbind:rw --mount type=bind,src=/data,dst=/data,options=rbind:rw "
            "--mount type=bind,src=/r,dst=/out,options=rbind:rw --env K=v docker.io/a/b:1 run-1");
  EXPECT_EQ(container_words("enroot", "/i/a.sqsh", devices),
            "enroot start --rw --env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=compute,utility "
            "--mount /dev/infiniband:/dev/infiniband --mount /data:/data --mount /r:/out --env K=v /i/a.sqsh");
}

TEST(LocalContainer, NothingIsAskedForThatTheMachineDoesNotHave) {
  for (const char* runtime : {"docker", "podman", "ctr", "enroot"}) {
    const std::string words = container_words(runtime, std::string_view(runtime) == "enroot" ? "./a.sqsh" : "docker.io/a/b", {});
    EXPECT_EQ(words.find("gpu"), std::string::npos) << words;
    EXPECT_EQ(words.find("NVIDIA"), std::string::npos) << words;
    EXPECT_EQ(words.find("infiniband"), std::string::npos) << words;
  }
}

TEST(LocalContainer, LimitsAreRaisedWhereTheyCanBe) {
  const ContainerDevices bound{.can_raise_limits = false};
  EXPECT_TRUE(contains(container_words("podman", "a", bound), " --ulimit=host "));
  EXPECT_FALSE(contains(container_words("podman", "a", bound), "memlock"));
  EXPECT_TRUE(contains(container_words("docker", "a", bound), " --ulimit=memlock=-1 ")) << "its daemon sets them";
}

TEST(LocalContainer, ImagesThatARuntimeCannotStartAreOneLine) {
  const auto message = [](const char* runtime, const char* image) {
    return message_of<UserError>([&] { container_start(image_of(runtime, image), "n", {}, {}); });
  };
  EXPECT_EQ(message("singularity", "a"), "--container singularity: use docker, podman, ctr or enroot");
  EXPECT_TRUE(contains(message("docker", "a.sqsh"), "squashfs files are for enroot"));
  EXPECT_TRUE(contains(message("docker", "--privileged"), "cannot be an image"));
  EXPECT_TRUE(contains(message("podman", "a b"), "cannot be an image"));
  EXPECT_TRUE(contains(message("ctr", "a/b:1"), "needs the whole name"));
  EXPECT_TRUE(contains(message("enroot", "a.sqsh"), "use the path of a squashfs file"));
  EXPECT_TRUE(contains(message("enroot", "/a"), "use the path of a squashfs file"));
  EXPECT_TRUE(contains(message("enroot", "docker://a/b"), "enroot import"));
  EXPECT_TRUE(contains(message_of<UserError>([] { require_container({"no-such-runtime", "a", {}}); }), "is not on PATH"));
}

std::string text_in(const fs::path& path) { return read_file(path, 1 << 20); }

TEST(LocalLogs, MergeWholeLinesAndNameOtherRanks) {
  const TemporaryFolder folder;
  RankLogs logs(folder.path(), [](const std::string& line) { ADD_FAILURE() << line; });
  logs.add(0, "step 1");
  logs.add(3, "warning: slow\nhalf");
  logs.add(0, " of 2\nstep 2\n");
  logs.add(3, " a line");
  logs.end_of(3);
  logs.say("attempt 2");
  EXPECT_EQ(text_in(folder / "log.txt"), "[3] warning: slow\nstep 1 of 2\nstep 2\n[3] half a line\nlaunch  attempt 2\n");
  EXPECT_EQ(text_in(folder / "rank-00003.log"), "warning: slow\nhalf a line\n");
  EXPECT_EQ(text_in(folder / "rank-00000.log"), "step 1 of 2\nstep 2\n");
}

TEST(LocalLogs, KeepTheReasonThatARankGives) {
  const TemporaryFolder folder;
  RankLogs logs(folder.path(), [](const std::string&) {});
  logs.add(1, "trireme: rank 3 (node7, process 4711) died in step 20\nmore\n");
  EXPECT_EQ(logs.take_complaint(), "rank 3 (node7, process 4711) died in step 20");
  EXPECT_EQ(logs.take_complaint(), "");
}

TEST(LocalLogs, AFullDiskIsOneWarning) {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "log.txt");
  std::vector<std::string> warnings;
  RankLogs logs(folder.path(), [&](const std::string& line) { warnings.push_back(line); });
  for (int i = 0; i < 10; ++i) logs.add(0, "line\n");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(contains(warnings[0], "log.txt cannot be written: No space left on device"));
  EXPECT_EQ(text_in(folder / "rank-00000.log").size(), 50U) << "the other file has room";
}

TEST(LocalProcess, ANumberAloneIsNotAProcess) {
  const auto own = identify(::getpid());
  ASSERT_TRUE(own);
  EXPECT_TRUE(is_running(*own));
  EXPECT_EQ(parse_process(text_of(*own)), own);
  EXPECT_TRUE(send_signal(*own, 0));
  const ProcessId earlier{own->process, own->started - 1};
  EXPECT_FALSE(is_running(earlier));
  EXPECT_FALSE(send_signal(earlier, SIGKILL)) << "the number belongs to another process now";
  for (const char* text : {"", "4711", "4711@", "x@1", "-4@1"}) EXPECT_FALSE(parse_process(text)) << text;
}

TEST(LocalState, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_job_state(folder.path()));
  write_job_state(folder.path(),
                  {.phase = JobPhase::failed, .detail = "rank 1 died", .exit_status = 93, .host = "h", .supervisor = "1@2"});
  const auto state = read_job_state(folder.path());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->phase, JobPhase::failed);
  EXPECT_EQ(state->detail, "rank 1 died");
  EXPECT_EQ(state->exit_status, 93);
  EXPECT_EQ(state->supervisor, "1@2");
  folder.write("status.json", "{\"phase\":");
  EXPECT_FALSE(read_job_state(folder.path()));
}

}  // namespace
}  // namespace trireme
