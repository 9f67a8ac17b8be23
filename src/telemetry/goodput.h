// Where the wall time of a run went, over all its attempts. Every microsecond from the start of the first process is counted
// once, for one use, so the uses add up to the wall time.
//
// goodput.jsonl in the folder of a run has one line per attempt, which the attempt itself rewrites in place as it proceeds. An
// attempt that is killed leaves what it had used so far; what was lost with it, and how long it took to start again, follows from
// the line of the next attempt.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

enum class TimeUse : uint8_t {
  step,  // steps whose results were kept
  data,  // waits for batches, within steps
  validation,
  checkpoint,  // what a save delays training by
  start_up,    // from the start of the process to the first step
  other,       // profiling, the end of the run
  lost_work,   // everything after the checkpoint from which the next attempt continued
  detection,   // from the last sign of progress of a rank that failed until the job ended for it
  restart,     // from then to the start of the next process
  stopped,     // from a stop on request to the start of the next process
  count_
};
inline constexpr size_t kTimeUses = static_cast<size_t>(TimeUse::count_);
const char* name_of(TimeUse use);  // "lost work"

struct TimeByUse {
  std::array<int64_t, kTimeUses> microseconds{};

  int64_t& operator[](TimeUse use) { return microseconds[static_cast<size_t>(use)]; }
  int64_t operator[](TimeUse use) const { return microseconds[static_cast<size_t>(use)]; }
  int64_t total() const;
};

// What had been used when the state after `step` steps was saved.
struct WorkMark {
  int64_t step = 0;
  TimeByUse times;
};

struct AttemptEnding {
  int64_t at = 0;  // Unix time in microseconds
  int status = 0;
  int64_t unnoticed = 0;  // microseconds of it before the failure was noticed
  std::string reason;     // one line
};

struct RunAttempt {
  int64_t number = 1;
  int64_t started = 0;  // Unix time in microseconds, of its process
  int64_t ranks = 1;
  int64_t first_step = kNone, steps_done = 0;  // kNone: training has not begun
  TimeByUse times;
  std::vector<WorkMark> marks;          // the newest last
  std::optional<AttemptEnding> ending;  // nothing: it runs, or nobody was left to write it

  static constexpr int64_t kNone = -1;
  static constexpr size_t kMostMarks = 4;
  int64_t clock() const { return started + times.total(); }  // Unix time until which `times` count
};

// The time of a run.
struct RunTime {
  TimeByUse times;
  int64_t attempts = 0;
  int64_t lost_steps = 0;

  double share(TimeUse use) const;
  std::string text() const;  // "goodput 93.1% of 2:03:00 in 3 attempts: step 93.1%, start-up 1.2%, lost work 2.1% (12 steps)"
  nlohmann::ordered_json json() const;
};

// `attempts` in order; the last one may still run.
RunTime account_of(std::span<const RunAttempt> attempts);

inline constexpr const char* kGoodputName = "goodput.jsonl";

// The attempts of a file; damaged lines are left out, and a file that is not there has none.
std::vector<RunAttempt> read_attempts_of_run(const std::filesystem::path& file);
// Writes the line of an attempt. Throws a Failure.
void write_attempt(const std::filesystem::path& file, const RunAttempt& attempt);

}  // namespace trireme
