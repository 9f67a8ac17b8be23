// Runs are killed with SIGKILL at random moments and resumed. After each kill every log holds whole records only; in the end
// they read as those of one undisturbed run.
#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 12000;

class KilledRun : public testing::Test {
 protected:
  KilledRun() {
    folder_.write("small.yaml",
                  "trainer: {precision: 32, max_steps: 12000, val_check_interval: 500, limit_val_batches: 1, threads: 1, "
                  "console_every_n_steps: 100000}\n"
                  "exp_manager: {resume_if_exists: true, resume_ignore_no_checkpoint: true, "
                  "checkpoint_callback_params: {every_n_train_steps: 200}}\n"
                  "model:\n"
                  "  micro_batch_size: 2\n  global_batch_size: 2\n  encoder_seq_length: 16\n  max_position_embeddings: 16\n"
                  "  num_layers: 1\n  hidden_size: 16\n  ffn_hidden_size: 64\n  num_attention_heads: 2\n  vocab_size: 64\n"
                  "  data: {data_impl: mock_legacy}\n");
  }

  std::string arguments() const {
    return "train " + (folder_ / "small.yaml").string() + " --mllog exp_manager.explicit_log_dir=" + run_.string();
  }

  // Starts a run and kills it after a while; false if it was over before.
  bool run_and_kill(std::chrono::microseconds after) const {
    const std::string command = std::string("exec ") + TRIREME_BINARY + " " + arguments() + " > /dev/null 2>&1";
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    std::this_thread::sleep_for(after);
    kill(child, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  static std::vector<std::string> lines_in(const fs::path& path) {
    const std::string text = fs::exists(path) ? read_file(path, 1 << 26) : "";
    EXPECT_TRUE(text.empty() || text.back() == '\n') << path << " ends with a torn line";
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  void expect_whole_records() const {
    for (const std::string& line : lines_in(run_ / "dllogger/rank-0/dllogger.json"))
      EXPECT_TRUE(line.starts_with("DLLL {") && nlohmann::json::accept(line.substr(5))) << line;
    for (const std::string& line : lines_in(run_ / "mllog.txt"))
      EXPECT_TRUE(line.starts_with(":::MLLOG {") && nlohmann::json::accept(line.substr(9))) << line;
    const auto cells = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
    const std::vector<std::string> rows = lines_in(run_ / "metrics.csv");
    for (const std::string& row : rows) EXPECT_EQ(cells(row), cells(rows[0])) << row;
    for (const char* name : {"nemo_log_globalrank-0_localrank-0.txt", "nemo_error_log.txt", "lightning_logs.txt", "cmd-args.log",
                             "git-info.log", "joblog.log", "hparams.yaml", "recipe.yaml"})
      lines_in(run_ / name);
    for (const auto& entry : fs::directory_iterator(run_))
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) expect_whole_events(entry.path());
  }

  static void expect_whole_events(const fs::path& path) {
    const std::string bytes = read_file(path, 1 << 26);
    size_t at = 0;
    while (at + 12 <= bytes.size()) {
      uint64_t length = 0;
      std::memcpy(&length, bytes.data() + at, sizeof(length));
      at += 8 + 4 + length + 4;
    }
    EXPECT_EQ(at, bytes.size()) << path << " ends with a torn record";
  }

  std::vector<int64_t> dllogger_steps() const {
    std::vector<int64_t> steps;
    for (const std::string& line : lines_in(run_ / "dllogger/rank-0/dllogger.json")) {
      const auto step = nlohmann::json::parse(line.substr(5)).at("step");
      if (step.is_number()) steps.push_back(step.get<int64_t>());
    }
    return steps;
  }

  TemporaryFolder folder_;
  fs::path run_ = folder_ / "run";
};

TEST_F(KilledRun, LeavesWholeRecordsAndGoesOn) {
  std::mt19937 random(20261115);
  std::uniform_int_distribution<int> microseconds(1'000, 300'000);
  int kills = 0;
  for (; kills < 40; ++kills) {
    if (!run_and_kill(std::chrono::microseconds(microseconds(random)))) break;
    if (!fs::exists(run_)) continue;
    expect_whole_records();
    if (HasFailure()) FAIL() << "after kill " << kills;
  }
  const ProgramResult last = run_program(arguments());
  ASSERT_EQ(last.status, 0) << last.output;
  expect_whole_records();

  std::vector<int64_t> every_step(kSteps);
  for (size_t i = 0; i < every_step.size(); ++i) every_step[i] = static_cast<int64_t>(i);
  EXPECT_EQ(dllogger_steps(), every_step);
  EXPECT_GT(kills, 5) << "too few to mean anything: this machine has become too fast for the number of steps";
}

}  // namespace
}  // namespace trireme
