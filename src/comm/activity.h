// What a rank is doing, as its heartbeats tell it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"

namespace trireme {

// Phases differ in what may take long. Only in a step and in a validation is the time between two signs of progress known.
// device_step: the host enqueues the step and waits for the device, so a host that stands still may wait for other ranks.
enum class RunPhase : uint8_t {
  start_up,
  first_steps,
  step,
  device_step,
  data,
  first_validation,
  validation,
  checkpoint,
  profiling,
  stopping
};
inline constexpr size_t kRunPhases = static_cast<size_t>(RunPhase::stopping) + 1;
const char* name_of(RunPhase phase);

struct Activity {
  RunPhase phase = RunPhase::start_up;
  int64_t step = -1;         // steps done; -1: no step has begun
  int64_t micro_batch = -1;  // begun last, counted from 0; -1: none in this step
  uint64_t calls = 0;        // collectives and messages begun, over all groups
  bool waits = false;        // for another rank
  double still = 0;          // seconds without a change of anything above but `waits`

  bool has_moved_since(const Activity& earlier) const {
    return phase != earlier.phase || step != earlier.step || micro_batch != earlier.micro_batch || calls != earlier.calls;
  }
  std::string text() const;   // "step 17, micro-batch 3", "validation after step 100"
  std::string place() const;  // the same with the collectives: "step 17, micro-batch 3, collective 5120"
};

nlohmann::json json_of(const Activity& activity);
Activity activity_of(const nlohmann::json& json);

// Written by the thread that trains, read by the control plane. A write costs less than a microsecond.
class ActivityBoard {
 public:
  // `age`: seconds that the process has already run; they count as start-up.
  explicit ActivityBoard(const Clock& clock = system_clock(), double age = 0);
  ActivityBoard(const ActivityBoard&) = delete;
  ActivityBoard& operator=(const ActivityBoard&) = delete;

  void begin_step(int64_t steps_done, RunPhase kind = RunPhase::step);  // or device_step
  void begin_micro_batch(int64_t micro_batch) { micro_batch_ = micro_batch; }
  void enter(RunPhase phase);

  RunPhase phase() const { return phase_; }
  Activity seen() const;
  // Microseconds since the process began, by phase: each is counted once. Only for the thread that trains.
  using PhaseTimes = std::array<int64_t, kRunPhases>;
  const PhaseTimes& times();
  double median_step_seconds() const { return median_; }  // of the last steps; 0 before kFirstSteps are done

  // Steps of this process that may tune or compile.
  static constexpr int64_t kFirstSteps = 3;

 private:
  static constexpr int64_t kWindow = 32;

  const Clock& clock_;
  std::atomic<RunPhase> phase_ = RunPhase::start_up;
  std::atomic<int64_t> step_ = -1, micro_batch_ = -1;
  std::atomic<double> median_ = 0;
  std::array<double, kWindow> seconds_{};  // of the last steps, as a ring
  int64_t timed_ = 0;
  double begun_at_ = 0;
  PhaseTimes times_{};
  double started_at_;    // of the process, on the clock
  int64_t counted_ = 0;  // microseconds since then that are in times_
};

// A phase as long as this object exists; then the one before again.
class DuringPhase {
 public:
  DuringPhase(ActivityBoard& board, RunPhase phase) : board_(board), before_(board.phase()) { board_.enter(phase); }
  ~DuringPhase() { board_.enter(before_); }
  DuringPhase(const DuringPhase&) = delete;
  DuringPhase& operator=(const DuringPhase&) = delete;

 private:
  ActivityBoard& board_;
  RunPhase before_;
};

}  // namespace trireme
