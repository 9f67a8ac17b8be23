// bench/cpu/compare.py with programs that stand in for trireme and PyTorch: what it refuses, and what it reports.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class CpuCompare : public testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("command -v python3").status != 0) SKIP_FOR(peer) << "python3 is not installed";
  }

  std::string script(const std::string& name, const std::string& lines) const {
    const std::string path = folder_.write(name, "#!/bin/sh\n" + lines);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  // A program that says which backend it uses, keeps its arguments, and writes the summary of 100 tokens per second.
  std::string ours(const std::string& backend) const {
    return script("ours", "echo \"$@\" >> " + (folder_ / "arguments").string() + "\necho 'backend " + backend + ": a reason'\n" +
                              "for word; do case $word in exp_manager.explicit_log_dir=*) folder=${word#*=};; esac; done\n" +
                              "echo '{\"tokens_per_second\": 100}' > $folder/summary.json\n");
  }
  ProgramResult compare(const std::string& ours, const std::string& peer, const std::string& options) const {
    return run_shell("python3 -B " TRIREME_SOURCE_DIR
                     "/bench/cpu/compare.py --cases 10m --precisions bf16 --modes eager --trireme " +
                     ours + " --peer " + peer + " --python sh " + options);
  }

  std::string report(const std::string& name) const {
    std::ifstream file(reports_ + "/" + name + ".md");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder_;
  std::string reports_ = (folder_ / "reports").string();
  std::string peer_ = script("peer", "echo 'PEER torch 1.0 10m tok/s=50'\n");
};

TEST_F(CpuCompare, PinsTheCpuAndRefusesAnotherBackend) {
  const ProgramResult cpu = compare(ours("cpu"), peer_, "--quick");
  EXPECT_EQ(cpu.status, 0) << cpu.output;
  EXPECT_NE(cpu.output.find("2.00"), std::string::npos) << cpu.output;
  std::ifstream arguments(folder_ / "arguments");
  std::string line;
  std::getline(arguments, line);
  EXPECT_NE(line.find("trainer.backend=cpu"), std::string::npos) << line;

  const ProgramResult gpu = compare(ours("cuda"), peer_, "--quick");
  EXPECT_EQ(gpu.status, 1) << gpu.output;
  EXPECT_NE(gpu.output.find("it ran on cuda"), std::string::npos) << gpu.output;
  EXPECT_EQ(gpu.output.find("2.00"), std::string::npos) << "no ratio of a GPU to a CPU: " << gpu.output;
}

TEST_F(CpuCompare, LimitsThePeerToTheBestInstructionSetThatRuns) {
  const std::string dying =
      script("dying", "[ \"$ONEDNN_MAX_CPU_ISA\" = AVX10_1_512 ] || kill -ILL $$\necho 'PEER torch 1.0 10m tok/s=50'\n");
  const ProgramResult found = compare(ours("cpu"), dying, "--busy --rounds 1 --name dying --reports " + reports_);
  EXPECT_EQ(found.status, 0) << found.output;
  EXPECT_NE(report("dying").find("- peer: torch 1.0; ONEDNN_MAX_CPU_ISA=AVX10_1_512 in bf16"), std::string::npos)
      << report("dying");
  const std::string unlimited =
      script("unlimited", "[ -z \"$ONEDNN_MAX_CPU_ISA\" ] || exit 1\necho 'PEER torch 1.0 10m tok/s=50'\n");
  EXPECT_EQ(compare(ours("cpu"), unlimited, "--quick").status, 0) << "no limit where none is needed";
  const std::string always = script("always", "kill -ILL $$\n");
  const ProgramResult none = compare(ours("cpu"), always, "--quick");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.output.find("SIGILL with every limit"), std::string::npos) << none.output;
}

// What CPUs with fewer instructions would reach.
TEST_F(CpuCompare, LimitsBothPrograms) {
  const auto limited = [&](const char* name, const char* variable, const char* value, const std::string& rest) {
    return script(name, std::string("[ \"$") + variable + "\" = " + value + " ] || exit 1\n" + rest);
  };
  const std::string ours512 = limited("ours512", "TRIREME_CPU_ISA", "avx512_bf16", ". " + ours("cpu") + "\n"),
                    peer512 = limited("peer512", "ONEDNN_MAX_CPU_ISA", "AVX10_1_512", ". " + peer_ + "\n");
  EXPECT_EQ(compare(ours512, peer512, "--quick").status, 1) << "without --instructions nothing is limited";
  const ProgramResult run = compare(ours512, peer512, "--instructions avx512 --busy --rounds 1 --name few --reports " + reports_);
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(contains(report("few"), "- instructions: both programs limited: TRIREME_CPU_ISA=avx512_bf16"));
  EXPECT_FALSE(contains(report("few"), "SIGILL")) << report("few");
}

// Figures of one round must not be cited, and the report says so.
TEST_F(CpuCompare, ReportsWhichRulesWereBroken) {
  const ProgramResult run = compare(ours("cpu"), peer_, "--busy --rounds 1 --commit abc --name one --reports " + reports_);
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(report("one").find("- may be cited: no; 1 rounds; at least 3 are needed"), std::string::npos) << report("one");
  EXPECT_TRUE(std::filesystem::exists(reports_ + "/one.log"));
}

}  // namespace
}  // namespace trireme
