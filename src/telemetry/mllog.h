// The log lines of MLPerf training: ":::MLLOG " and a JSON object with namespace, time_ms, event_type, key, value and metadata.
//
//   :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "seed", "value": 1234, ...}
//
// metadata.step is the number of tokens trained on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "telemetry/log_file.h"
#include "telemetry/step_record.h"

namespace trireme {

struct MllogFacts {
  int64_t global_batch_size = 0;
  int64_t sequence_length = 0;
  int64_t steps = 0;
  double warmup_steps = 0;
  double learning_rate = 0;
  uint64_t seed = 0;
};

class MllogSink final : public Sink {
 public:
  // Appends to an existing file, after removing a torn last line.
  MllogSink(const std::string& path, const MllogFacts& facts, Notify notify, const Clock& clock = system_clock());

  void step(const StepRecord& record) override;
  void validation(const ValidationRecord& record) override;
  void finish(const RunEnding& ending) override;

 private:
  enum class Event : uint8_t { point, begin, end };
  void write(Event event, std::string_view key, const nlohmann::ordered_json& value, const nlohmann::ordered_json& metadata);
  nlohmann::ordered_json progress() const { return {{"step", samples_ * facts_.sequence_length}}; }

  const MllogFacts facts_;
  const Clock& clock_;
  LogFile file_;
  int64_t samples_ = 0;  // consumed
  std::string line_;
};

}  // namespace trireme
