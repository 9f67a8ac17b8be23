// The resources that a stage of a longer run used.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"

namespace trireme {

struct StageUsage {
  std::string name;
  double wall_seconds = 0, user_seconds = 0, system_seconds = 0;  // including child processes
  int64_t peak_memory_bytes = 0;                                  // of this process
  int64_t bytes = 0;                                              // processed by the stage

  double cpu_percent() const { return wall_seconds > 0 ? 100 * (user_seconds + system_seconds) / wall_seconds : 0; }
  double mb_per_second() const { return wall_seconds > 0 ? static_cast<double>(bytes) / 1e6 / wall_seconds : 0; }
};

nlohmann::json to_json(const StageUsage& usage);
StageUsage stage_from_json(const nlohmann::json& json);  // missing fields are 0
// Sums the usage of a stage that ran in two runs.
StageUsage sum_of(const StageUsage& earlier, const StageUsage& later);

// Measures from its construction.
class StageMeter {
 public:
  explicit StageMeter(std::string name);
  StageUsage finish(int64_t bytes) const;

 private:
  std::string name_;
  Stopwatch watch_;
  double user_ = 0, system_ = 0;
};

}  // namespace trireme
