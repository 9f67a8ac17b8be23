// `trireme launch local` as its users type it: from another folder, twice, detached, with a typo, in a container.
#include "launch/local_run.h"

namespace trireme {
namespace {

class LocalCommandSlow : public LocalRun {
 protected:
  std::string short_run(const std::string& more = "") const {
    return "launch local tiny.yaml --ranks 1 trainer.max_steps=10 " + more;
  }
  void expect_line(const std::string& arguments, const std::string& line, const std::string& environment = "") const {
    const ProgramResult result = trireme(arguments, environment);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_EQ(lines_of(result.output), 1) << result.output;
    EXPECT_TRUE(contains(result.output, line));
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << arguments;
  }
  // A runtime that records its arguments and runs what follows the image.
  std::string fake_runtime(const std::string& name) const {
    folder_.write("bin/" + name,
                  "#!/bin/sh\necho \"$@\" >> arguments.txt\n[ \"$1\" = run ] || exit 0\n"
                  "while [ \"$1\" != localhost/image ]; do shift; done\nshift\nexec \"$@\"\n");
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
    std::error_code ignored;
    fs::create_symlink(TRIREME_BINARY, folder_ / "bin/trireme", ignored);
    return fmt::format("PATH={}/bin:$PATH", folder_.path().string());
  }
};

TEST_F(LocalCommandSlow, RunsFromAnyFolderAndNumbersTheSecondRun) {
  const ProgramResult first = trireme(short_run("--report-bindings --env TRIREME_TEST=1"));
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_TRUE(contains(first.output, "Logging to: " + (launch_folder("tiny") / "log.txt").string()));
  EXPECT_TRUE(contains(first.output, "step  10/10"));
  EXPECT_TRUE(contains(first.output, "choice  rank 0 is not bound (--report-bindings)"));
  const ProgramResult second = trireme(short_run());
  EXPECT_EQ(second.status, 0) << second.output;
  EXPECT_TRUE(contains(second.output, "launch  tiny-2 on local"));
  EXPECT_EQ(text_of(launch_folder("tiny-2") / "rank-00000.log"), log_of("tiny-2")) << "one rank needs no names";
  EXPECT_TRUE(contains(trireme(short_run("--name tiny")).output, "--resume continues it, --name NAME starts another one"));
  const ProgramResult more = trireme(short_run("--name tiny --resume trainer.max_steps=20"));
  EXPECT_TRUE(contains(more.output, "resumed from step 10")) << more.output;
  EXPECT_EQ(more.output.find("step  10/10"), std::string::npos) << "the log of the first run is not shown again";
}

TEST_F(LocalCommandSlow, ADryRunSaysWhatItWouldStartAndWhyAndChangesNothing) {
  const ProgramResult result = trireme("launch local tiny.yaml --ranks 2 --dry-run");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "choice  ranks started "));
  EXPECT_TRUE(contains(result.output, "launch supervise " + (launch_folder("tiny") / "local.json").string()));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(LocalCommandSlow, ADetachedRunIsFoundFollowedAndStopped) {
  const ProgramResult started = trireme("launch local tiny.yaml --ranks 2 --name night --detach trainer.max_steps=400000");
  EXPECT_EQ(started.status, 0) << started.output;
  EXPECT_EQ(trireme("launch --logs night --rank 1").status, 0) << "also before it has said anything";
  wait_until_trained("night", 10);
  EXPECT_TRUE(contains(status_of("night"), "running, checkpoint of step"));
  EXPECT_TRUE(contains(trireme("launch --logs night").output, "layout  2 ranks"));
  EXPECT_EQ(trireme("launch --logs night --rank 1").status, 0);
  EXPECT_TRUE(contains(trireme(short_run("--name night")).output, "night is in use"));
  EXPECT_EQ(trireme("launch --stop night").status, 0);
  EXPECT_TRUE(processes("").empty()) << left();
  EXPECT_TRUE(contains(status_of("night"), "stopped (exit status 75)"));
  EXPECT_TRUE(contains(trireme("launch --stop night").output, "had ended"));
}

TEST_F(LocalCommandSlow, ARunInAPodIsPartOfALargerOne) {
  const std::string pod = "JOB_COMPLETION_INDEX=1 NNODES=2 ";
  const ProgramResult result = trireme("launch local tiny.yaml --ranks 2 --dry-run", pod + "MASTER_ADDR=pod-0");
  EXPECT_TRUE(contains(result.output, "choice  ranks 2 to 3 of 4"));
  EXPECT_TRUE(contains(trireme("launch local tiny.yaml --ranks 2 --dry-run", pod).output, "MASTER_ADDR is not; set it"));
}

TEST_F(LocalCommandSlow, TwoPodsFormOneWorld) {
  const int port = 20000 + static_cast<int>(::getpid()) % 10000;
  std::string both;
  for (int pod = 0; pod < 2; ++pod)
    both +=
        command(fmt::format("launch local tiny.yaml --ranks 1 --name pod trainer.max_steps=4 "
                            "exp_manager.create_checkpoint_callback=false exp_manager.explicit_log_dir=shared > out{} 2>&1 & ",
                            pod, pod),
                fmt::format("JOB_COMPLETION_INDEX={} NNODES=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={}", pod, port)) +
        "p" + std::to_string(pod) + "=$!; ";
  const ProgramResult result = run_shell(both + "wait $p0 && wait $p1");
  EXPECT_EQ(result.status, 0) << text_of(folder_ / "out0") << text_of(folder_ / "out1");
  EXPECT_TRUE(contains(text_of(folder_ / "out0"), "layout  2 ranks"));
}

TEST_F(LocalCommandSlow, AContainerRunsTheRanksAndItsSupervisorRestartsIt) {
  const std::string path = fake_runtime("podman");
  const ProgramResult result = trireme(short_run("--container podman localhost/image"), path);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_TRUE(contains(result.output, "step  10/10"));
  EXPECT_TRUE(contains(text_of(folder_ / "arguments.txt"), "localhost/image trireme launch supervise"));
  EXPECT_TRUE(contains(text_of(folder_ / "arguments.txt"), "--volume " + launch_folder("tiny").string()));
}

TEST_F(LocalCommandSlow, AContainerThatCannotStartIsGivenUp) {
  const std::string path = fake_runtime("docker");
  folder_.write("bin/docker", "#!/bin/sh\n[ \"$1\" = run ] && { echo no such image >&2; exit 125; }\nexit 0\n");
  const ProgramResult result = trireme(short_run("--name c --container docker localhost/image"), path);
  EXPECT_EQ(result.status, 93) << result.output;
  EXPECT_TRUE(contains(result.output, "[docker] no such image"));
  EXPECT_EQ(read_attempts(launch_folder("c")).size(), 3U);
}

TEST_F(LocalCommandSlow, ALostSupervisorEndsTheRanksInItsContainer) {
  const std::string path = fake_runtime("podman");
  const std::string run =
      "launch local tiny.yaml --name c --ranks 1 --detach --container podman localhost/image trainer.max_steps=400000";
  ASSERT_EQ(trireme(run, path).status, 0);
  ASSERT_TRUE(eventually([&] { return newest_step(launch_folder("c") / "results") >= 10; })) << log_of("c");
  kill(supervisors().at(0), SIGKILL);
  EXPECT_TRUE(eventually([&] { return processes("").empty(); }, std::chrono::seconds(20))) << left();
}

TEST_F(LocalCommandSlow, BadInputIsOneLineAndStartsNothing) {
  expect_line("launch local tiny.yaml --ranks 2 --gpus 0,9", "--gpus 0,9: ");
  expect_line("launch local tiny.yaml --ranks 2 --gpus 0,x", "\"x\" is not the number of a GPU");
  expect_line("launch local tiny.yaml --ranks 2 --map-by numa:4", "--map-by numa:4: use ppr:N:UNIT");
  expect_line("launch local tiny.yaml --ranks 2 --bind-to core:all", "--bind-to core:all: use core, hwthread or none");
  expect_line("launch local tiny.yaml --ranks 2 --numa-mode near", "--numa-mode near: use all, single");
  expect_line("launch local tiny.yaml --container lxc image", "--container lxc: use docker, podman, ctr or enroot");
  expect_line("launch local tiny.yaml --container podman image", "podman is not on PATH", "PATH=/nothing");
  expect_line("launch local tiny.yaml --results tiny.yaml/runs", "tiny.yaml is not a folder");
  expect_line("launch local tiny.yaml --name big/run", "--name big/run: use at most");
}

}  // namespace
}  // namespace trireme
