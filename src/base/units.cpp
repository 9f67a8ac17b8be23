#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace trireme {
namespace {

// Formats `value` with one decimal in the largest unit that keeps it at 1 or more. Compares the rounded number, so that 999,960
// becomes "1.0M" and not "1000.0k".
template <size_t count>
std::string scaled(double value, double base, const std::array<const char*, count>& units) {
  size_t unit = 0;
  while (unit + 1 < count && std::round(std::abs(value) * 10) / 10 >= base) {
    value /= base;
    ++unit;
  }
  if (unit == 0 && value == std::round(value)) return fmt::format("{:.0f}{}", value, units[0]);
  return fmt::format("{:.1f}{}", value, units[unit]);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr std::array kUnits{" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits);
}

std::string format_count(double count) {
  static constexpr std::array kUnits{"", "k", "M", "B", "T"};
  return scaled(count, 1000, kUnits);
}

std::string plural(int64_t count, const std::string& noun) { return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s"); }

std::string counted(double count, const std::string& noun) {
  const double whole = std::round(count);
  return fmt::format("{} {}{}", format_count(whole), noun, whole == 1 ? "" : "s");
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 0.99995e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 0.99995) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string format_flops(double per_second) {
  return per_second < 0.1e12 ? fmt::format("{:.2f} GFLOP/s", per_second / 1e9) : fmt::format("{:.2f} TFLOP/s", per_second / 1e12);
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) return "-";
  const int64_t total = std::llround(seconds);
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60, rest = total % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

}  // namespace trireme
