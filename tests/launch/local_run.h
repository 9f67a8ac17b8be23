// Launches of a tiny model on this machine, in the background, and what tests do to their processes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/run_program.h"
#include "cli/small_run.h"
#include "launch/attempt_log.h"
#include "launch/job.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {

inline constexpr int kLocalSteps = 700;

class LocalRun : public testing::Test {
 protected:
  LocalRun() { write_recipe(folder_); }
  static std::string command_line_of(pid_t process) {
    try {
      return read_file(fmt::format("/proc/{}/cmdline", process), 1 << 20);
    } catch (const Failure&) {
      return "";  // it has ended meanwhile
    }
  }

  // Nothing of a launch is left, whatever its test did.
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes("").empty(); }, std::chrono::seconds(20))) << "left: " << left();
    for (const pid_t process : processes("")) kill(process, SIGKILL);
  }

  static void write_recipe(const TemporaryFolder& folder) {
    folder.write("tiny.yaml",
                 "trainer: {precision: 32, threads: 1, max_steps: 20, val_check_interval: null, console_every_n_steps: 100}\n"
                 "exp_manager: {checkpoint_callback_params: {every_n_train_steps: 10, keep_last: 3}}\n"
                 "model:\n  micro_batch_size: 1\n  global_batch_size: 4\n  encoder_seq_length: 16\n"
                 "  max_position_embeddings: 16\n  num_layers: 1\n  hidden_size: 32\n  ffn_hidden_size: 64\n"
                 "  num_attention_heads: 4\n  vocab_size: 128\n  hidden_dropout: 0.1\n  data: {data_impl: mock}\n");
  }

  // Commands run in the test's folder; `environment` as in a shell.
  ProgramResult trireme(const std::string& arguments, const std::string& environment = "") const {
    return run_shell(command(arguments, environment));
  }
  // Open MPI leaves memory behind, which a sanitizer would take for ours.
  std::string command(const std::string& arguments, const std::string& environment = "") const {
    return fmt::format("cd {} && env -u CUDA_VISIBLE_DEVICES ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 {} {} {}",
                       folder_.path().string(), environment, TRIREME_BINARY, arguments);
  }
  std::string launch_run(const std::string& name, const std::string& more = "") const {
    return fmt::format("launch local tiny.yaml --name {} --ranks 2 trainer.max_steps={} {}", name, kLocalSteps, more);
  }

  fs::path launch_folder(const std::string& name) const { return folder_ / "runs" / name; }
  std::string text_of(const fs::path& path) const { return fs::exists(path) ? read_file(path, 1 << 26) : ""; }
  std::string log_of(const std::string& name) const { return text_of(launch_folder(name) / "log.txt"); }
  std::string status_of(const std::string& name) const { return trireme("launch --status " + name).output; }

  // The processes of this test whose command line has this text, in the order in which they were started.
  std::vector<pid_t> processes(const std::string& text) const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      pid_t process = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
      if (error != std::errc() || end != name.data() + name.size()) continue;
      const std::string line = command_line_of(process);
      if (line.find(folder_.path().string()) != std::string::npos && line.find(text) != std::string::npos)
        found.push_back(process);
    }
    std::ranges::sort(found);
    return found;
  }
  // A command line has zeros between its words.
  std::vector<pid_t> ranks_of(const std::string& name) const {
    return processes(std::string("\0train\0", 7) + (launch_folder(name) / name).string());
  }
  std::vector<pid_t> supervisors() const { return processes(std::string("\0supervise\0", 11)); }
  std::string left() const {
    std::string text;
    for (const pid_t process : processes("")) text += fmt::format("{} ", process);
    return text;
  }

  // Until its ranks train and have saved something.
  void wait_until_trained(const std::string& name, int64_t step = 50) const {
    ASSERT_TRUE(eventually([&] { return newest_step(launch_folder(name) / "results") >= step && ranks_of(name).size() == 2; }))
        << log_of(name);
  }
  void wait_until_over(const std::string& name) const {
    ASSERT_TRUE(eventually([&] { return supervisors().empty(); }, std::chrono::seconds(100))) << log_of(name);
  }

  std::string final_weights(const std::string& name) const {
    std::string bytes;
    for (int rank = 0; rank < 2; ++rank)
      bytes +=
          text_of(launch_folder(name) / fmt::format("results/checkpoints/step-{:08}/rank-{:05}.safetensors", kLocalSteps, rank));
    return bytes;
  }

  TemporaryFolder folder_;
};

}  // namespace trireme
