#include "base/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iterator>

namespace trireme {
namespace {

class SystemClock final : public Clock {
 public:
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  int64_t unix_microseconds() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

void append_local_time(std::string& out, int64_t unix_microseconds) {
  const time_t whole = unix_microseconds / 1'000'000;
  tm parts{};
  localtime_r(&whole, &parts);
  fmt::format_to(std::back_inserter(out), "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}", parts.tm_year + 1900, parts.tm_mon + 1,
                 parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, unix_microseconds % 1'000'000);
}

}  // namespace trireme
