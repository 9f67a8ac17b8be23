#include "report/thinned_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kNonfiniteShown = 100;

struct Group {
  double mean = std::numeric_limits<double>::quiet_NaN(), low = mean, high = mean;
};

Group summarise(std::span<const Point> points) {
  double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t finite = 0;
  for (const Point& point : points) {
    if (!std::isfinite(point.value)) continue;
    sum += point.value;
    low = std::min(low, point.value);
    high = std::max(high, point.value);
    finite += 1;
  }
  if (finite == 0) return {};
  return {.mean = points.size() == 1 ? sum : std::clamp(sum / static_cast<double>(finite), low, high), .low = low, .high = high};
}

nlohmann::ordered_json rounded(const std::vector<double>& values) {
  auto list = nlohmann::ordered_json::array();
  for (const double value : values)
    list.push_back(std::isfinite(value) ? nlohmann::ordered_json(std::stod(fmt::format("{:.7g}", value))) : nullptr);
  return list;
}

}  // namespace

ThinnedSeries thin(const std::vector<Point>& points, size_t limit) {
  const size_t group = std::max<size_t>((points.size() + limit - 1) / limit, 1);
  ThinnedSeries result{.group = static_cast<int64_t>(group), .steps = {}, .values = {}, .low = {}, .high = {}, .nonfinite = {}};
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const std::span members = std::span(points).subspan(begin, std::min(group, points.size() - begin));
    const Group summary = summarise(members);
    result.steps.push_back(members.front().step);
    result.values.push_back(summary.mean);
    if (group > 1) result.low.push_back(summary.low), result.high.push_back(summary.high);
  }
  for (const Point& point : points)
    if (!std::isfinite(point.value) && result.nonfinite.size() < kNonfiniteShown) result.nonfinite.push_back(point.step);
  return result;
}

nlohmann::ordered_json to_json(const ThinnedSeries& series) {
  nlohmann::ordered_json json{{"group", series.group}, {"steps", series.steps}, {"values", rounded(series.values)}};
  if (!series.low.empty()) json["low"] = rounded(series.low), json["high"] = rounded(series.high);
  if (!series.nonfinite.empty()) json["nonfinite"] = series.nonfinite;
  return json;
}

}  // namespace trireme
