// TensorBoard event files with NeMo's tags.
//
// A file is a sequence of records: length u64, masked crc32c of the length u32, the bytes of an Event (protobuf), masked crc32c
// of those u32; little-endian. The fields used, by number:
//   Event         1 wall_time double   2 step int64   3 file_version string   5 Summary   7 SessionLog
//   Summary       1 Value, repeated    Value: 1 tag string, 2 simple_value float
//   SessionLog    1 status: 1 is START
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "telemetry/log_file.h"
#include "telemetry/step_values.h"

namespace trireme {

struct TensorboardOptions {
  int64_t first_step = 0;  // the first step that this process runs
  StepTiming timing = StepTiming::logged;
};

class TensorboardSink final : public Sink {
 public:
  // Starts a new event file in `folder`. It starts with START at first_step, at which TensorBoard discards older files' values
  // for that step and later ones, so a resumed run draws one curve. Removes a torn record at the end of an older file.
  TensorboardSink(const std::string& folder, const TensorboardOptions& options, Notify notify,
                  const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;
  void task_scores(const TaskScoresRecord& record) override;

  // Writes a single value, such as one known only at the end of a run.
  void scalar(std::string_view tag, double value, int64_t step);

  const std::string& path() const { return file_.path(); }

 private:
  void begin_event(int64_t step);
  void add_value(std::string_view tag, double value);  // appends to summary_
  void write_summary(int64_t step);                    // writes summary_ as one event
  void fill_event(size_t bytes);
  void write_event();

  const TensorboardOptions options_;
  const Clock& clock_;
  LogFile file_;
  std::string event_, value_, summary_, record_;  // members, so that a step allocates nothing
};

}  // namespace trireme
