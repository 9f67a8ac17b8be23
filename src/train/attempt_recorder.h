// Records what this attempt of the run has used its time for: one line of goodput.jsonl, kept up to date by rank 0.
#pragma once

#include <memory>
#include <mutex>

#include "comm/activity.h"
#include "comm/meeting.h"
#include "telemetry/goodput.h"
#include "telemetry/step_record.h"

namespace trireme {

// Rank 0 says this, and the number of the attempt, after the first step of an attempt that follows another one.
inline constexpr const char* kFirstStepOfAttempt = "first step of attempt ";

enum class RecordWriter : uint8_t { yes, no };  // whether this rank keeps the line up to date

class AttemptRecorder {
 public:
  // `number` is that of the attempt, from 1. All but note_failure() are for the thread that trains.
  AttemptRecorder(std::filesystem::path file, int64_t number, int64_t ranks, ActivityBoard& board, RecordWriter writer);

  int64_t number() const { return attempt_.number; }
  void begin_training(int64_t first_step);
  void note_step(int64_t steps_done);  // written several times per second at most
  void note_saved(int64_t step);
  void end(int status, const std::string& reason);
  RunTime time();  // of all attempts, until now

  // Why the job ended; by any thread, on the rank that speaks. Nothing is written after it.
  void note_failure(const JobEnd& end);

 private:
  void write();  // the caller holds the mutex
  void update_times();

  const std::filesystem::path file_;
  ActivityBoard& board_;
  const RecordWriter writer_;
  std::vector<RunAttempt> earlier_;
  std::mutex mutex_;
  RunAttempt attempt_;
  bool has_ended_ = false;
  double written_at_ = 0;
};

// The number of the next attempt of a run.
int64_t next_attempt_number(const std::filesystem::path& file);

}  // namespace trireme
