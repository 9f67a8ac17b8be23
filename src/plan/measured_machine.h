// What `trireme plan --measure` found out about a machine: the part of a hardware file that says how long this program's own ops
// and collectives took there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/tree.h"
#include "plan/measured_ops.h"

namespace trireme {

inline constexpr double kMicrosecond = 1e-6;  // the unit of times in hardware files

// Seconds of a collective by its bytes, the smallest first.
class CollectiveTimes {
 public:
  struct Point {
    double bytes = 0, seconds = 0;
  };
  explicit CollectiveTimes(std::vector<Point> points) : points_(std::move(points)) {}

  double seconds(double bytes) const;  // between two points along the line through them, beyond the largest by its rate
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

struct MeasuredMachine {
  RecordedDevice device = RecordedDevice::gpu;
  int64_t ranks = 1;                           // that were measured together
  int64_t threads = 0;                         // of each rank; 0: a GPU
  double step_seconds = 0;                     // of a step besides its ops
  double op_seconds = 0;                       // between two ops; below 0 where an op alone takes longer than in a run
  double overlap_cost = 0;                     // share of a collective's time by which it delays the ops that it overlaps
  std::map<std::string, MeasuredOps> formats;  // f32, bf16, fp8
  std::map<std::string, CollectiveTimes> collectives;

  const MeasuredOps* ops_of(const Settings& settings) const;  // null if that format was not measured
};

// The name of a recipe's number format: f32, bf16 or fp8.
std::string format_of(const Settings& settings);

// `measured` of a hardware file. A UserError names what is missing or wrong.
MeasuredMachine read_measured(const Tree& measured, const std::string& path);
Tree to_tree(const MeasuredMachine& machine);

}  // namespace trireme
