#include "report/run_log.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void keep_last_of_each_step(std::vector<Point>& points) {
  if (std::ranges::adjacent_find(points, std::greater_equal<>{}, &Point::step) == points.end()) return;
  std::ranges::stable_sort(points, {}, &Point::step);
  // In reverse order, so that unique keeps the last of equal steps.
  const auto kept = std::unique(points.rbegin(), points.rend(), [](const Point& a, const Point& b) { return a.step == b.step; });
  points.erase(points.begin(), kept.base());
}

}  // namespace

const Series* RunLog::find(std::string_view series_name) const {
  const auto found = std::ranges::find(series, series_name, &Series::name);
  return found == series.end() ? nullptr : &*found;
}

const nlohmann::json* RunLog::parameter(std::string_view key) const {
  const auto found = parameters.find(key);
  return found == parameters.end() ? nullptr : &found->second;
}

void RunLog::complete_with(RunLog&& other) {
  append(files, std::move(other.files));
  append(notes, std::move(other.notes));
  for (Series& candidate : other.series) {
    const auto same = std::ranges::find(series, candidate.name, &Series::name);
    if (same == series.end())
      series.push_back(std::move(candidate));
    else if (candidate.points.size() > same->points.size())
      *same = std::move(candidate);
  }
  parameters.merge(std::move(other.parameters));
}

void SeriesBuilder::add(std::string_view name, int64_t step, double value) {
  series_[index_of(name)].points.push_back({.step = step, .value = value});
}

size_t SeriesBuilder::index_of(std::string_view name) {
  if (expected_ >= series_.size() || series_[expected_].name != name) {
    const auto [entry, is_new] = index_.try_emplace(std::string(name), series_.size());
    if (is_new) series_.push_back({.name = std::string(name), .points = {}});
    expected_ = entry->second;
  }
  return std::exchange(expected_, (expected_ + 1) % series_.size());
}

void SeriesBuilder::forget_from(int64_t step) {
  for (Series& series : series_) std::erase_if(series.points, [step](const Point& point) { return point.step >= step; });
  forgotten_ = std::min(step, forgotten_.value_or(step));
}

std::optional<int64_t> SeriesBuilder::take_forgotten() { return std::exchange(forgotten_, std::nullopt); }

std::vector<Series> SeriesBuilder::take() {
  index_.clear();
  expected_ = 0;
  for (Series& series : series_) keep_last_of_each_step(series.points);
  std::erase_if(series_, [](const Series& series) { return series.points.empty(); });
  return std::move(series_);
}

}  // namespace trireme
