// The text logs of a rank, with NeMo's file names and line format:
//
//   [NeMo I 2023-09-11 22:31:28 train:120] step  120/300  loss  2.3412 ...
//
// I is information, W a warning, E an error; the number after "train:" counts finished steps. All messages go to
// nemo_log_globalrank-R_localrank-L.txt; warnings and errors also go to nemo_error_log.txt, which all ranks share.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "telemetry/log_file.h"
#include "telemetry/step_record.h"

namespace trireme {

std::string text_log_name(int global_rank, int local_rank);
inline constexpr const char* kErrorLogName = "nemo_error_log.txt";

// Which ranks write to the error log. With several ranks the first rank opens it before the others.
enum class ErrorLogOf : uint8_t { one_rank, first_rank, other_rank };

// Messages may come from any thread.
class TextLogSink final : public Sink {
 public:
  // Appends to existing files, after removing a torn last line.
  TextLogSink(const std::string& path, const std::string& error_path, int64_t total_steps, Notify notify,
              const Clock& clock = system_clock(), ErrorLogOf errors = ErrorLogOf::one_rank);

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;
  void task_scores(const TaskScoresRecord& record) override;
  void message(Severity severity, std::string_view text) override;
  void finish(const RunEnding& ending) override;

 private:
  void write(char letter, std::string_view text);

  const int64_t total_steps_;
  const Clock& clock_;
  std::mutex mutex_;
  LogFile all_, errors_;
  int64_t steps_done_ = 0;
  std::string text_, line_;  // members, so that a step allocates nothing
};

// lightning_logs.txt: the progress in the format of Lightning's bar, one line per step, and Lightning's message at the end:
//
//   Epoch 0:  40%|####      | 16/40 [00:12<00:18, 1.27it/s, v_num=, reduced_train_loss=10.90, global_step=15.00, ...]
//   `Trainer.fit` stopped: `max_steps=40` reached.
class LightningLogSink final : public Sink {
 public:
  LightningLogSink(const std::string& path, int64_t total_steps, Notify notify, const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void finish(const RunEnding& ending) override;

 private:
  const int64_t total_steps_;
  Stopwatch elapsed_;
  LogFile file_;
  std::string line_;
};

}  // namespace trireme
