// trireme train on several GPUs over NCCL, as far as a machine without GPUs shows it: the program as it is, with a module of
// FakeDevices in the place of the CUDA backend's, and NCCL stood in for. The calls, their order and what happens when a rank dies
// or stands still are those of GPUs.
#include "cli/mpi_run.h"
#include "support/nccl_stand_in.h"

namespace trireme {
namespace {

constexpr const char* kLayout = "model.tensor_model_parallel_size=2";  // with DP 2

class OverNccl : public MpiRun {
 protected:
  // A copy of the program finds its modules beside itself, and a driver where the loader looks.
  void SetUp() override {
    MpiRun::SetUp();
    fs::create_directory(folder_ / "gpus");
    fs::copy_file(TRIREME_BINARY, program());
    const fs::path modules = fs::path(TRIREME_BINARY_DIR);
    fs::create_symlink(modules / "tests/libfake_cuda_module.so", folder_ / "gpus/libtrireme_cuda.so");
    fs::create_symlink(modules / "tests/libnccl_stand_in.so", folder_ / "gpus/libcuda.so.1");  // any library will do
    fs::create_symlink(modules / "libtrireme_mpi.so", folder_ / "gpus/libtrireme_mpi.so");
  }
  fs::path program() const { return folder_ / "gpus/trireme"; }

  std::string on_gpus(const std::string& run, const std::string& more, const std::string& environment = "") const {
    return fmt::format(
        "env {} FAKE_GPUS=4 LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH mpirun --allow-run-as-root --oversubscribe -n 4 {} {}",
        environment, (folder_ / "gpus").string(), program().string(), train(run, fmt::format("{} {}", kLayout, more)));
  }

  // Starts a run that is under way when this returns.
  void start_run(const std::string& more, const std::string& environment = "") {
    start(on_gpus("run", "trainer.max_steps=100000 " + more, environment));
    ASSERT_TRUE(eventually([&] { return output().find("\nstep ") != std::string::npos && processes().size() == 4; })) << output();
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Both add in the order of the ranks, so that checkpoints are equal to the last bit.
TEST_F(OverNccl, TrainsAsOnHostMemory) {
  const auto host = run_shell(mpirun(4, train("host", kLayout)));
  ASSERT_EQ(host.status, 0) << host.output;
  const auto gpus = run_shell(on_gpus("gpus_run", ""));
  ASSERT_EQ(gpus.status, 0) << gpus.output;
  EXPECT_TRUE(contains(unwrapped(gpus.output), "libnccl_stand_in.so), network stand-in, no net plugin; dp over SHM; "))
      << gpus.output;
  EXPECT_EQ(logged("gpus_run", "reduced_train_loss"), logged("host", "reduced_train_loss"));
  EXPECT_TRUE(shard_bytes("gpus_run", 40) == shard_bytes("host", 40));
}

TEST_F(OverNccl, ALibraryThatCannotBeLoadedIsNamed) {
  const auto result = run_shell(on_gpus("run", "", "TRIREME_NCCL=/no/such/library"));
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_TRUE(contains(result.output, "trireme: TRIREME_NCCL=/no/such/library cannot be loaded: ")) << result.output;
  EXPECT_TRUE(contains(result.output, "; name a libnccl.so.2, or unset it to search the usual places\n")) << result.output;
  EXPECT_EQ(complaints(result.output), 1) << result.output;
}

// Silently, as over NVLink, and with an error of NCCL's own, as over a network.
TEST_F(OverNccl, ARankThatIsKilledIsNamed) {
  const struct {
    const char* environment;
    size_t victim;
  } cases[] = {{"", 2}, {"NCCL_STAND_IN_REMOTE_ERRORS=1", 0}};
  for (const auto& [environment, victim] : cases) {
    start_run("", environment);
    ASSERT_FALSE(HasFatalFailure());
    const pid_t process = processes().at(victim);
    kill(process, SIGKILL);
    EXPECT_NE(finish(std::chrono::seconds(60)), 0);
    const std::regex line(
        fmt::format("trireme: rank {} \\([^ ]+, process {}\\) died in step \\d+; post-mortem: [^\n]+\n", victim, process));
    EXPECT_TRUE(std::regex_search(output(), line)) << output();
    EXPECT_EQ(complaints(output()), 1) << output();
    fs::remove_all(folder_ / "run");
  }
}

TEST_F(OverNccl, ARankThatStandsStillIsNamedByTheTimeout) {
  start_run("trainer.rank_timeout=4");
  ASSERT_FALSE(HasFatalFailure());
  const pid_t process = processes().at(3);
  kill(process, SIGSTOP);
  EXPECT_EQ(finish(std::chrono::seconds(60)), 1);
  const std::regex line(
      fmt::format("trireme: .*waited 4 s for \".*\"; under way: .* in group .* \\(ranks .*\\); "
                  ".*rank 3 \\([^ ]+, process {}\\) did not arrive and has been silent for \\d+ s.*\n",
                  process));
  EXPECT_TRUE(std::regex_search(output(), line)) << output();
  EXPECT_EQ(complaints(output()), 1) << output();
}

}  // namespace
}  // namespace trireme
