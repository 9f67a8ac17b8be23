// How long one op or collective takes.
#pragma once

#include "plan/hardware.h"
#include "plan/recording.h"
#include "plan/software.h"

namespace trireme {

// Ranks of a group, every `stride`-th of the cluster.
struct GroupPlace {
  double size = 1;
  double stride = 1;
};

class CallTimes {
 public:
  // With `measured`, ops that are in it take their measured time; the profile's constants are for the others.
  CallTimes(const Platform& platform, const SoftwareProfile& software, const MeasuredOps* measured = nullptr)
      : platform_(platform), software_(software), measured_(measured) {}

  double seconds(const PlanCall& op) const;  // of one call that is not a collective
  double collective_seconds(std::string_view name, double bytes, double calls, const GroupPlace& place) const;
  double message_seconds(double bytes, double stride) const;  // between two stages, `stride` ranks apart

 private:
  double modelled_seconds(const PlanCall& op) const;
  const CollectiveTimes* measured_collective(std::string_view name, double ranks) const;
  double gemm_seconds(double rows, double columns, double depth, double batches, DType dtype) const;
  double copy_seconds(double bytes) const;
  double attention_seconds(const PlanCall& op) const;
  double network_bandwidth() const;  // bytes/s of one GPU
  double nvlink_bandwidth() const;

  const Platform& platform_;
  const SoftwareProfile& software_;
  const MeasuredOps* measured_;  // may be null
};

}  // namespace trireme
