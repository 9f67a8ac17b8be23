// Runs of several ranks, started with mpirun as a user would, and what tests do to their processes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/file.h"
#include "cli/run_program.h"
#include "cli/small_run.h"
#include "comm/tcp.h"
#include "support/skip.h"

namespace trireme {

using std::chrono::milliseconds;

inline std::string mpirun(int ranks, const std::string& arguments) {
  return fmt::format("mpirun --allow-run-as-root --oversubscribe -n {} {} {}", ranks, TRIREME_BINARY, arguments);
}

// The same without MPI: every rank is told where the others are. The status is that of the last rank.
inline std::string processes_that_meet(int ranks, const std::string& arguments) {
  const int port = TcpListener().port();  // free a moment ago
  std::string script;
  for (int rank = 0; rank < ranks; ++rank)
    script += fmt::format("RANK={} WORLD_SIZE={} MASTER_ADDR=localhost MASTER_PORT={} {} {} & ", rank, ranks, port,
                          TRIREME_BINARY, arguments);
  return "sh -c '" + script + "wait $!'";
}

// Each rank on one thread, in f32, so that losses can be compared between layouts.
class MpiRun : public SmallRun {
 protected:
  MpiRun()
      : SmallRun(
            {.trainer = "precision: 32, threads: 1", .checkpoints = "every_n_train_steps: 10, keep_last: 9", .micro_batch = 1}) {}

  void SetUp() override {
    if (run_shell("command -v mpirun").status != 0) SKIP_FOR(mpi) << "mpirun is not installed";
  }

  fs::path checkpoint(const std::string& run, int step) const {
    return folder_ / run / "checkpoints" / fmt::format("step-{:08}", step);
  }
  // The bytes of all shards of a checkpoint.
  std::string shard_bytes(const std::string& run, int step) const {
    std::vector<fs::path> shards;
    for (const auto& entry : fs::directory_iterator(checkpoint(run, step)))
      if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
    std::ranges::sort(shards);
    std::string bytes;
    for (const fs::path& shard : shards) bytes += read_file(shard, 1 << 24);
    return bytes;
  }
  // Of the DLLogger file: the values of a name, step by step.
  std::vector<double> logged(const std::string& run, const std::string& name) const {
    std::istringstream file(read_file(folder_ / run / "dllogger/rank-0/dllogger.json", 1 << 24));
    std::vector<double> values;
    for (std::string line; std::getline(file, line);) {
      const auto data = nlohmann::json::parse(line.substr(5)).at("data");
      if (data.contains(name)) values.push_back(data.at(name));
    }
    return values;
  }

  // mpirun in the background; what it says goes to a file.
  void start(const std::string& command) {
    output_ = folder_ / "output.txt";
    fs::remove(output_);
    const std::string line = fmt::format("exec {} > {} 2>&1", command, output_.string());
    child_ = start_shell(line);
  }
  std::string output() const { return fs::exists(output_) ? read_file(output_, 1 << 24) : ""; }

  template <class Condition>
  bool eventually(Condition condition, std::chrono::seconds limit = std::chrono::seconds(240)) {
    return trireme::eventually(condition, limit);
  }
  bool wait_for_text(const std::string& text) {
    return eventually([&] { return output().find(text) != std::string::npos; });
  }

  // The process of a rank, as the layout at the start names it.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    const std::string text = unwrapped(output());
    const std::regex line("rank \\d+: .*?; [^ ]+, process (\\d+), cores");
    for (std::sregex_iterator match(text.begin(), text.end(), line), end; match != end; ++match)
      found.push_back(static_cast<pid_t>(std::stol((*match)[1])));
    return found;
  }

  // The processes that the one in the background has started.
  std::vector<pid_t> children() const {
    std::istringstream words(read_file(fmt::format("/proc/{0}/task/{0}/children", child_), 1 << 16));
    std::vector<pid_t> found;
    for (pid_t process = 0; words >> process;) found.push_back(process);
    return found;
  }

  // The exit status of mpirun; a failed test unless it ends, and all ranks with it.
  int finish(std::chrono::seconds limit = std::chrono::seconds(120)) {
    const std::vector<pid_t> ranks = processes();
    int status = 0;
    if (!eventually([&] { return waitpid(child_, &status, WNOHANG) == child_; }, limit)) {
      ADD_FAILURE() << "mpirun is still there: " << output();
      for (const pid_t rank : ranks) kill(rank, SIGKILL);
      kill(child_, SIGKILL);
      waitpid(child_, &status, 0);
    }
    for (const pid_t rank : ranks)
      EXPECT_TRUE(eventually([&] { return kill(rank, 0) != 0; }, std::chrono::seconds(10))) << "process " << rank << " is left";
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Lines that the program itself says when it fails; mpirun adds its own.
  static int64_t complaints(const std::string& text) {
    int64_t count = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) count += line.starts_with("trireme: ");
    return count;
  }

  fs::path output_;
  pid_t child_ = 0;
};

}  // namespace trireme
