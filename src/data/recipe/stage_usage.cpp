#include "data/recipe/stage_usage.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/process.h"

namespace trireme {
namespace {

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; }

struct CpuTime {
  double user = 0, system = 0;
};
CpuTime cpu_time() {
  CpuTime time;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    time.user += seconds_of(usage.ru_utime);
    time.system += seconds_of(usage.ru_stime);
  }
  return time;
}

}  // namespace

nlohmann::json to_json(const StageUsage& usage) {
  return {{"name", usage.name},
          {"wall_seconds", usage.wall_seconds},
          {"user_seconds", usage.user_seconds},
          {"system_seconds", usage.system_seconds},
          {"cpu_percent", usage.cpu_percent()},
          {"peak_memory_bytes", usage.peak_memory_bytes},
          {"bytes", usage.bytes},
          {"mb_per_second", usage.mb_per_second()}};
}

StageUsage stage_from_json(const nlohmann::json& json) {
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  return {.name = json.value("name", ""),
          .wall_seconds = number("wall_seconds"),
          .user_seconds = number("user_seconds"),
          .system_seconds = number("system_seconds"),
          .peak_memory_bytes = static_cast<int64_t>(number("peak_memory_bytes")),
          .bytes = static_cast<int64_t>(number("bytes"))};
}

StageUsage sum_of(const StageUsage& earlier, const StageUsage& later) {
  return {.name = later.name,
          .wall_seconds = earlier.wall_seconds + later.wall_seconds,
          .user_seconds = earlier.user_seconds + later.user_seconds,
          .system_seconds = earlier.system_seconds + later.system_seconds,
          .peak_memory_bytes = std::max(earlier.peak_memory_bytes, later.peak_memory_bytes),
          .bytes = earlier.bytes + later.bytes};
}

StageMeter::StageMeter(std::string name) : name_(std::move(name)) {
  std::ofstream("/proc/self/clear_refs")
      << "5";  // resets the peak of memory; if that is forbidden, the peak counts from the start of the process
  const CpuTime now = cpu_time();
  user_ = now.user;
  system_ = now.system;
}

StageUsage StageMeter::finish(int64_t bytes) const {
  const CpuTime now = cpu_time();
  return {.name = name_,
          .wall_seconds = watch_.seconds(),
          .user_seconds = now.user - user_,
          .system_seconds = now.system - system_,
          .peak_memory_bytes = peak_resident_bytes(),
          .bytes = bytes};
}

}  // namespace trireme
