// The values of one quantity over a run. Any range of steps is reduced to what a chart can show in the time of what is drawn, not
// of what is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/run_log.h"
#include "report/thinned_series.h"

namespace trireme {

class History {
 public:
  // The points are sorted by step. Of a repeated step the later value counts, as in SeriesBuilder.
  void add(const std::vector<Point>& points);
  void forget_from(int64_t step);

  size_t size() const { return steps_.size(); }
  bool empty() const { return steps_.empty(); }
  Point back() const { return {.step = steps_.back(), .value = values_.back()}; }
  std::optional<double> at_or_before(int64_t step) const;  // the value of the last step up to this one
  double recent_median(size_t count) const;                // of the last finite values; 0 without any
  int64_t bytes() const;

  // How many points a group has so that those from step `first` to `last` make at most 2 * limit groups: a power of two.
  size_t group_for(int64_t first, int64_t last, size_t limit) const;

  // The points from step `first` to `last` in groups, and one group beyond each end so that curves reach the edges. Groups begin
  // at multiples of their size, so a longer history has the same groups and more. The values keep float's precision.
  ThinnedSeries groups(int64_t first, int64_t last, size_t group) const;

 private:
  struct Block {  // of kBlock points
    double sum = 0;
    float low = 0, high = 0;
    int32_t finite = 0;
  };
  static constexpr size_t kBlock = 256;

  void place(const Point& point);
  Block summary_of(size_t begin, size_t end) const;  // from the points, or from whole blocks where the range consists of them
  Block scan(size_t begin, size_t end) const;
  void refresh_blocks(size_t from);

  std::vector<int64_t> steps_;
  std::vector<float> values_;
  std::vector<Block> blocks_;       // complete ones, and the last
  std::vector<int64_t> nonfinite_;  // steps, sorted
};

// Appends {"group":4,"steps":[...],"values":[...],"low":[...],"high":[...],"nonfinite":[...]} with the members in `more` first.
void append_json(std::string& out, const ThinnedSeries& series, const std::string& more);
void append_number(std::string& out, double value);  // six digits, null if it is not finite

}  // namespace trireme
