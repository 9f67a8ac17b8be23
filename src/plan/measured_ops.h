// How long the ops of this program took on a machine, and from that how long they take on other shapes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/recording.h"

namespace trireme {

struct MeasuredCall {
  PlanCall call;
  double seconds = 0;
};

// Of the calls of one op. A sum of what the work costs (per call, FLOP, byte, element of the result, drawn number) is fitted to
// them; its error is then interpolated between the measured shapes, so a shape that was measured has the time it took.
class OpTimes {
 public:
  explicit OpTimes(std::vector<MeasuredCall> measured);

  double seconds(const PlanCall& call) const;
  const std::vector<MeasuredCall>& measured() const { return measured_; }

 private:
  double fitted_seconds(const PlanCall& call) const;

  std::vector<MeasuredCall> measured_;
  std::vector<double> costs_;   // of each kind of work; none is negative
  std::vector<double> errors_;  // of the sum, by measured call: the logarithm of its factor
};

// By measured_name().
using MeasuredCalls = std::map<std::string, std::vector<MeasuredCall>>;

// Of all ops in one number format.
class MeasuredOps {
 public:
  explicit MeasuredOps(MeasuredCalls measured);

  std::optional<double> seconds(const PlanCall& call) const;  // nothing if the op was not measured
  const std::map<std::string, OpTimes>& ops() const { return ops_; }

 private:
  std::map<std::string, OpTimes> ops_;
};

// Under which an op is measured: its name, for GEMMs of FP8 operands one of their own.
std::string measured_name(const PlanCall& call);

}  // namespace trireme
