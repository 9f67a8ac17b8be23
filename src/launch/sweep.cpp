#include "launch/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kMostPoints = 1000;

std::vector<std::string> values_of(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0')
      quote = c == quote ? '\0' : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (c == ',' && depth == 0 && quote == '\0')
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

}  // namespace

std::vector<std::vector<std::string>> sweep_points(const std::vector<std::string>& sweeps) {
  std::vector<std::vector<std::string>> points(1);
  std::vector<std::string> keys;
  for (const std::string& sweep : sweeps) {
    const size_t equals = sweep.find('=');
    const std::string key = sweep.substr(0, equals);
    const std::vector<std::string> values =
        equals == std::string::npos ? std::vector<std::string>{""} : values_of(sweep.substr(equals + 1));
    if (key.empty() || std::ranges::find(values, "") != values.end())
      throw UserError("sweep {}: write KEY=A,B,C, as in model.micro_batch_size=1,2,4", sweep);
    if (std::ranges::find(keys, key) != keys.end()) throw UserError("sweep {}: {} is swept twice", sweep, key);
    keys.push_back(key);
    if (points.size() * values.size() > kMostPoints)
      throw UserError("the sweep has more than {} combinations; give fewer values", kMostPoints);
    std::vector<std::vector<std::string>> longer;
    for (const std::vector<std::string>& point : points)
      for (const std::string& value : values) {
        longer.push_back(point);
        longer.back().push_back(fmt::format("{}={}", key, value));
      }
    points = std::move(longer);
  }
  return points;
}

}  // namespace trireme
