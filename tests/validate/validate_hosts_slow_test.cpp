// trireme validate over several hosts on one machine: network namespaces with limited links, ranks that meet over TCP and through
// MPI.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/file.h"
#include "cli/mpi_run.h"
#include "comm/mesh.h"
#include "comm/world.h"
#include "launch/pod_network.h"
#include "validate/validation.h"
#include "validate/wrong_backend.h"

namespace trireme {
namespace {

class ValidateHosts : public testing::Test {
 protected:
  // Starts `hosts` ranks, each on a host of its own, and waits for them.
  void validate_on(const PodNetwork& network, int hosts, const std::string& arguments) {
    ranks_.clear();
    for (int host = 0; host < hosts; ++host) network.announce(host, fmt::format("h{}", host + 1));
    for (int host = 0; host < hosts; ++host)
      ranks_.push_back(network.start(
          host, fmt::format("h{}", host + 1),
          fmt::format("env RANK={} WORLD_SIZE={} MASTER_ADDR=10.78.0.1 MASTER_PORT=29511 {} {} > {} 2> {}", host, hosts, program_,
                      arguments + (host == 0 && program_ == kProgram ? " --output " + (folder_ / "out").string() : ""),
                      (folder_ / fmt::format("out-{}.txt", host)).string(),
                      (folder_ / fmt::format("err-{}.txt", host)).string())));
    if (during_) during_(ranks_);
    statuses_.clear();
    for (const pid_t rank : ranks_) {
      int status = 0;
      waitpid(rank, &status, 0);
      statuses_.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    text_ = read_file(folder_ / "out-0.txt", 1 << 24) + read_file(folder_ / "err-0.txt", 1 << 24);
    std::error_code failed;
    if (std::filesystem::exists(folder_ / "out/validation.json", failed))
      json_ = nlohmann::json::parse(read_file(folder_ / "out/validation.json", 1 << 24));
  }

  static constexpr const char* kProgram = TRIREME_BINARY " validate";
  std::string program_ = kProgram;
  TemporaryFolder folder_;
  std::vector<pid_t> ranks_;
  std::vector<int> statuses_;
  std::function<void(const std::vector<pid_t>&)> during_;
  std::string text_;
  nlohmann::json json_;
};

// Every host may send and receive so much.
void limit_links(const PodNetwork& network, int hosts, const std::string& rate) {
  for (int host = 0; host < hosts; ++host) network.limit(host, rate);
}

TEST_F(ValidateHosts, NamesTheHostWithTheSlowLink) {
  for (const int hosts : {4, 5}) {
    const PodNetwork network(hosts);
    if (!network.works()) SKIP_FOR(machine) << "no network namespaces with limited links here";
    limit_links(network, hosts, "400mbit");
    if (!network.limit(2, "40mbit")) SKIP_FOR(machine) << "no network namespaces with limited links here";
    validate_on(network, hosts, "--quick --max-bytes 64K");
    EXPECT_EQ(statuses_, std::vector<int>(static_cast<size_t>(hosts), 2)) << text_;
    EXPECT_EQ(json_.at("bad_nodes").dump(), R"(["h3"])") << text_;
    EXPECT_NE(text_.find("slurm  --exclude=h3\n"), std::string::npos) << text_;
    EXPECT_NE(text_.find("# Out of bounds values : 0 OK"), std::string::npos) << text_;
  }
}

// Stops the process again and again, so that it runs a quarter of the time.
TEST_F(ValidateHosts, NamesTheSlowedRank) {
  const PodNetwork network(4);
  if (!network.works()) SKIP_FOR(machine) << "no network namespaces here";
  std::atomic<bool> goes_on = true;
  std::thread brake;
  during_ = [&](const std::vector<pid_t>& ranks) {
    brake = std::thread([&goes_on, slowed = ranks[1]] {
      while (goes_on) {
        ::kill(slowed, SIGSTOP);
        std::this_thread::sleep_for(milliseconds(24));
        ::kill(slowed, SIGCONT);
        std::this_thread::sleep_for(milliseconds(4));
      }
    });
  };
  std::thread end([&] {
    eventually([&] { return std::filesystem::exists(folder_ / "out/validation.json"); }, std::chrono::seconds(120));
    goes_on = false;
  });
  validate_on(network, 4, "--quick --max-bytes 64K");
  end.join();
  brake.join();
  ASSERT_FALSE(json_.is_null()) << text_;
  for (const auto& rank : json_.at("ranks")) EXPECT_EQ(rank.at("slow"), rank.at("node") == "h2") << text_;
  EXPECT_NE(text_.find("FAIL  h2: rank 1 (CPU): GEMM: "), std::string::npos) << text_;
}

TEST_F(ValidateHosts, FindsTheFolderThatIsNotShared) {
  const PodNetwork network(2);
  if (!network.works()) SKIP_FOR(machine) << "no network namespaces here";
  validate_on(network, 2, "--quick --results " + (folder_ / "missing").string());
  EXPECT_EQ(statuses_.front(), 2) << text_;
  EXPECT_NE(text_.find("not there, expected a folder that all nodes share"), std::string::npos) << text_;
  validate_on(network, 2, "--quick --dcgm --results " + folder_.path().string());
  EXPECT_EQ(statuses_, (std::vector<int>{0, 0})) << text_;
  EXPECT_TRUE(json_.at("collectives").empty());
}

// A rank on a host; that of WRONG_RANK computes wrong. Rank 0 writes what is found about that to the file FOUND.
void validate_as_rank() {
  const char *wrong_rank = std::getenv("WRONG_RANK"), *found = std::getenv("FOUND");
  ASSERT_TRUE(wrong_rank != nullptr && found != nullptr);
  World world = World::find();
  CpuBackend cpu(1);
  cpu.set_streams(world.streams());
  WrongGemm wrong(cpu);
  const Mesh mesh = Mesh::of(MeshShape{.tp = world.size()}, world);
  Backend& own = std::to_string(world.rank()) == wrong_rank ? static_cast<Backend&>(wrong) : cpu;
  RankGroup here{own, *mesh.world, world.control()};
  const ValidationReport report = run_validation(here, {.depth = Depth::quick, .max_bytes = 4096});
  if (world.rank() == 0)
    for (const Finding& finding : report.findings)
      if (finding.check == "wrong_results") std::ofstream(found, std::ios::app) << text_of(finding) << "\n";
  world.control().share("written", "");
}

// The ranks are this test again.
TEST_F(ValidateHosts, NamesTheRankThatComputesWrong) {
  if (std::getenv("WRONG_RANK") != nullptr) return validate_as_rank();
  const PodNetwork network(4);
  if (!network.works()) SKIP_FOR(machine) << "no network namespaces here";
  const std::string found = folder_.write("found.txt", "");
  program_ = fmt::format("WRONG_RANK=2 FOUND={} {}", found, std::filesystem::read_symlink("/proc/self/exe").string());
  validate_on(network, 4, "--gtest_filter=ValidateHosts.NamesTheRankThatComputesWrong");
  EXPECT_EQ(statuses_, std::vector<int>(4, 0)) << text_;
  EXPECT_EQ(read_file(found, 1 << 16),
            "FAIL  h3: rank 2 (CPU): rows of an exact GEMM: 2 wrong, expected none; the device computes "
            "wrong: drain the node\n");
}

class ValidateThroughMpi : public MpiRun {};

TEST_F(ValidateThroughMpi, PrintsTheColumnsOfNcclTests) {
  const ProgramResult result = run_shell(mpirun(4, "validate --quick --max-bytes 1M"));
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"})
    EXPECT_NE(result.output.find(fmt::format("# {} over 4 ranks", name)), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("# Out of bounds values : 0 OK"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("good  1 node: no check failed"), std::string::npos) << result.output;
}

TEST_F(ValidateThroughMpi, AMistakeIsAFailureOfTheTool) {
  const ProgramResult result = run_shell(mpirun(2, "validate --cluster mars"));
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_EQ(complaints(result.output), 1) << result.output;
}

}  // namespace
}  // namespace trireme
