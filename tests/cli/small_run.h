// Runs of a small model, and a program in the background that a test does something to.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/temporary_folder.h"

namespace trireme {

namespace fs = std::filesystem;

template <class Condition>
bool eventually(Condition condition, std::chrono::seconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A line of the shell in the background.
inline pid_t start_shell(const std::string& line) {
  const pid_t child = fork();
  if (child != 0) return child;
  execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
  _exit(127);
}

// build/trireme in the background. `shell` may redirect its output or put a program such as nohup before it.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::string& arguments, const std::string& redirect = ">/dev/null 2>&1",
                             const std::string& before = "exec")
      : process_(start_shell(fmt::format("{} {} {} {}", before, TRIREME_BINARY, arguments, redirect))) {}
  ~BackgroundProgram() {
    if (process_ > 0) finish();
  }
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  void send(int signal) const { kill(process_, signal); }

  bool handles(int signal) const { return trireme::handles(process_, signal); }

  // Its exit status; 128 and the signal's number if one killed it. Killed after a minute.
  int finish() {
    int status = 0;
    if (!eventually([&] { return waitpid(process_, &status, WNOHANG) == process_; })) {
      ADD_FAILURE() << "the program is still there";
      kill(process_, SIGKILL);
      waitpid(process_, &status, 0);
    }
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = 0;
};

// Of the recipe of SmallRun, what its users want differently.
struct SmallRecipe {
  std::string trainer = "precision: bf16";
  std::string checkpoints = "every_n_train_steps: 10";
  int micro_batch = 2;
};

// A small model with dropout on a text of its own, checkpoints every 10 steps.
class SmallRun : public testing::Test {
 protected:
  explicit SmallRun(const SmallRecipe& recipe = {}) {
    std::string text;
    for (int i = 0; i < 600; ++i) text += fmt::format("line {} of a text that nobody wrote\n", i * i);
    folder_.write("text.txt", text);
    folder_.write("small.yaml", "trainer: {" + recipe.trainer +
                                    ", max_steps: 40, val_check_interval: 20, limit_val_batches: 2}\n"
                                    "exp_manager: {checkpoint_callback_params: {" +
                                    recipe.checkpoints + "}}\nmodel:\n  micro_batch_size: " + std::to_string(recipe.micro_batch) +
                                    "\n  global_batch_size: 4\n  encoder_seq_length: 16\n  max_position_embeddings: 16\n"
                                    "  num_layers: 2\n  hidden_size: 32\n  ffn_hidden_size: 128\n  num_attention_heads: 4\n"
                                    "  hidden_dropout: 0.1\n  attention_dropout: 0.1\n"
                                    "  optim: {lr: 3e-3, sched: {name: CosineAnnealing, warmup_steps: 5, min_lr: 1e-4}}\n"
                                    "  data: {data_impl: text, splits_string: \"90,10,0\", data_prefix: [" +
                                    (folder_ / "text.txt").string() + "]}\n");
  }

  std::string train(const std::string& run, const std::string& more = "") const {
    return fmt::format("train {} exp_manager.explicit_log_dir={} {}", (folder_ / "small.yaml").string(), (folder_ / run).string(),
                       more);
  }
  fs::path shard(const std::string& run, int step) const {
    return folder_ / run / "checkpoints" / fmt::format("step-{:08}", step) / "rank-00000.safetensors";
  }
  std::string shard_bytes(const std::string& run, int step) const { return read_file(shard(run, step), 1 << 24); }
  std::string text_of(const fs::path& file) const { return read_file(folder_ / file, 1 << 24); }

  TemporaryFolder folder_;
};

}  // namespace trireme
