#include "serve/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

namespace trireme {
namespace {

constexpr size_t kNonfiniteShown = 100;

template <class T>
void append_array(std::string& out, const char* name, const std::vector<T>& values) {
  fmt::format_to(std::back_inserter(out), "\"{}\":[", name);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    if constexpr (std::is_integral_v<T>)
      fmt::format_to(std::back_inserter(out), "{}", values[i]);
    else
      append_number(out, values[i]);
  }
  out += ']';
}

}  // namespace

void History::add(const std::vector<Point>& points) {
  if (points.empty()) return;
  size_t changed = steps_.size();
  for (const Point& point : points) {
    if (!steps_.empty() && point.step <= steps_.back()) {
      const auto at = std::ranges::lower_bound(steps_, point.step);
      changed = std::min(changed, static_cast<size_t>(at - steps_.begin()));
    }
    place(point);
  }
  refresh_blocks(changed);
}

void History::place(const Point& point) {
  const auto value = static_cast<float>(point.value);
  const auto at = steps_.empty() || point.step > steps_.back() ? steps_.end() : std::ranges::lower_bound(steps_, point.step);
  const auto index = at - steps_.begin();
  if (at == steps_.end() || *at != point.step) {
    steps_.insert(at, point.step);
    values_.insert(values_.begin() + index, value);
  } else {
    values_[static_cast<size_t>(index)] = value;
  }
  const auto marked = std::ranges::lower_bound(nonfinite_, point.step);
  const bool is_marked = marked != nonfinite_.end() && *marked == point.step;
  if (!std::isfinite(value) && !is_marked) nonfinite_.insert(marked, point.step);
  if (std::isfinite(value) && is_marked) nonfinite_.erase(marked);
}

void History::forget_from(int64_t step) {
  const auto kept = static_cast<size_t>(std::ranges::lower_bound(steps_, step) - steps_.begin());
  if (kept == steps_.size()) return;
  steps_.resize(kept);
  values_.resize(kept);
  nonfinite_.erase(std::ranges::lower_bound(nonfinite_, step), nonfinite_.end());
  refresh_blocks(kept);
}

void History::refresh_blocks(size_t from) {
  blocks_.resize((steps_.size() + kBlock - 1) / kBlock);
  for (size_t block = from / kBlock; block < blocks_.size(); ++block)
    blocks_[block] = scan(block * kBlock, std::min((block + 1) * kBlock, steps_.size()));
}

std::optional<double> History::at_or_before(int64_t step) const {
  const auto after = std::ranges::upper_bound(steps_, step);
  if (after == steps_.begin()) return std::nullopt;
  return values_[static_cast<size_t>(after - steps_.begin()) - 1];
}

double History::recent_median(size_t count) const {
  std::vector<float> recent;
  for (size_t i = values_.size(); i > 0 && recent.size() < count; --i)
    if (std::isfinite(values_[i - 1])) recent.push_back(values_[i - 1]);
  if (recent.empty()) return 0;
  const auto middle = recent.begin() + std::ssize(recent) / 2;
  std::nth_element(recent.begin(), middle, recent.end());
  return *middle;
}

int64_t History::bytes() const {
  return static_cast<int64_t>(steps_.capacity() * sizeof(int64_t) + values_.capacity() * sizeof(float) +
                              blocks_.capacity() * sizeof(Block));
}

History::Block History::scan(size_t begin, size_t end) const {
  Block block{.low = std::numeric_limits<float>::infinity(), .high = -std::numeric_limits<float>::infinity()};
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(values_[i])) continue;
    block.sum += values_[i];
    block.low = std::min(block.low, values_[i]);
    block.high = std::max(block.high, values_[i]);
    block.finite += 1;
  }
  return block;
}

History::Block History::summary_of(size_t begin, size_t end) const {
  if (begin % kBlock != 0 || (end % kBlock != 0 && end != steps_.size()) || end - begin < kBlock) return scan(begin, end);
  Block all{.low = std::numeric_limits<float>::infinity(), .high = -std::numeric_limits<float>::infinity()};
  for (size_t block = begin / kBlock; block < (end + kBlock - 1) / kBlock; ++block) {
    all.sum += blocks_[block].sum;
    all.low = std::min(all.low, blocks_[block].low);
    all.high = std::max(all.high, blocks_[block].high);
    all.finite += blocks_[block].finite;
  }
  return all;
}

size_t History::group_for(int64_t first, int64_t last, size_t limit) const {
  const auto from = std::ranges::lower_bound(steps_, first), to = std::ranges::upper_bound(steps_, last);
  const auto points = static_cast<size_t>(std::max<std::ptrdiff_t>(to - from, 0));
  return std::bit_ceil(std::max<size_t>(points / std::max<size_t>(limit, 1), 1));
}

ThinnedSeries History::groups(int64_t first, int64_t last, size_t group) const {
  ThinnedSeries result;
  result.group = static_cast<int64_t>(group);
  if (steps_.empty()) return result;
  const auto from = static_cast<size_t>(std::ranges::lower_bound(steps_, first) - steps_.begin());
  const auto to = static_cast<size_t>(std::ranges::upper_bound(steps_, last) - steps_.begin());
  const size_t first_group = from / group, begin = (first_group > 0 ? first_group - 1 : 0) * group;
  const size_t end = std::min((to / group + 2) * group, steps_.size());
  for (size_t at = begin; at < end; at += group) {
    const Block block = summary_of(at, std::min(at + group, steps_.size()));
    const bool is_known = block.finite > 0;
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    result.steps.push_back(steps_[at]);
    result.values.push_back(is_known ? std::clamp<double>(block.sum / block.finite, block.low, block.high) : nothing);
    if (group == 1) continue;
    result.low.push_back(is_known ? block.low : nothing);
    result.high.push_back(is_known ? block.high : nothing);
  }
  for (auto at = std::ranges::lower_bound(nonfinite_, first);
       at != nonfinite_.end() && *at <= last && result.nonfinite.size() < kNonfiniteShown; ++at)
    result.nonfinite.push_back(*at);
  return result;
}

void append_number(std::string& out, double value) {
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(out), "{:.6g}", value);
  else
    out += "null";
}

void append_json(std::string& out, const ThinnedSeries& series, const std::string& more) {
  fmt::format_to(std::back_inserter(out), "{{{}\"group\":{},", more, series.group);
  append_array(out, "steps", series.steps);
  append_array(out += ',', "values", series.values);
  if (!series.low.empty()) append_array(out += ',', "low", series.low), append_array(out += ',', "high", series.high);
  if (!series.nonfinite.empty()) append_array(out += ',', "nonfinite", series.nonfinite);
  out += '}';
}

}  // namespace trireme
