#include "plan/call_time.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12;
// The tile of a GEMM kernel that large GEMMs use.
constexpr double kTileRows = 128, kTileColumns = 256;
// Tensor cores read eight bf16 values at once; heads of other widths are multiplied by kernels that are slower by this.
constexpr int64_t kAlignedWidth = 8;
constexpr double kMisalignedSlowdown = 8;
// Shares of the bf16 peak that flash attention reaches.
constexpr double kFlashForward = 0.55, kFlashBackward = 0.45;
// Passes over the [T,T] matrix by scale, mask, softmax and dropout, which is written and read between the GEMMs.
constexpr double kSoftmaxForward = 4, kSoftmaxBackward = 5;

// Kernels of the last wave leave multiprocessors idle. Half of that is won back by smaller tiles and split sums.
double waves_of(double tiles, double multiprocessors) {
  const double waves = tiles / multiprocessors;
  return (waves + std::ceil(waves)) / 2;
}

}  // namespace

double CallTimes::copy_seconds(double bytes) const {
  return bytes / (platform_.gpu.memory_bandwidth * kGiga * platform_.gpu.copy_share);
}

double CallTimes::gemm_seconds(double rows, double columns, double depth, double batches, DType dtype) const {
  const GpuModel& gpu = platform_.gpu;
  const bool is_fp8 = size_of(dtype) == 1;
  const double peak = is_fp8 ? gpu.fp8_tflops * gpu.fp8_share : gpu.bf16_tflops * gpu.bf16_share;
  const double tiles = std::ceil(rows / kTileRows) * std::ceil(columns / kTileColumns) * batches;
  const double tile_flops = kTileRows * kTileColumns * 2 * depth;
  const double tile_seconds =
      tile_flops * gpu.multiprocessors / (peak * kTera * software_[Constant::gemm]) + gpu.tile_us * kMicro;
  const double computing = waves_of(tiles, gpu.multiprocessors) * tile_seconds;
  const double bytes = batches * (static_cast<double>(size_of(dtype)) * (rows + columns) * depth + 2 * rows * columns);
  return std::max(computing, copy_seconds(bytes)) + gpu.launch_us * kMicro;
}

double CallTimes::attention_seconds(const PlanCall& op) const {
  const bool is_forward = op.kind == CallKind::attention_forward;
  const double T = static_cast<double>(op.rows), keys = static_cast<double>(op.columns), D = static_cast<double>(op.depth);
  const double batches = static_cast<double>(op.batches);
  const double factor = software_[Constant::attention];
  if (software_.attention == AttentionKernel::flash) {
    const double share = is_forward ? kFlashForward : kFlashBackward;
    return factor * op.flops / (platform_.gpu.bf16_tflops * kTera * share) + platform_.gpu.launch_us * kMicro;
  }
  const double slowdown = op.depth % kAlignedWidth == 0 ? 1 : kMisalignedSlowdown;
  const double scores = gemm_seconds(T, keys, D, batches, op.dtype), values = gemm_seconds(T, D, keys, batches, op.dtype);
  const double gemms = is_forward ? scores + values : 2 * (scores + values);
  const double passes = is_forward ? kSoftmaxForward : kSoftmaxBackward;
  return factor * (slowdown * gemms + passes * copy_seconds(2 * batches * T * keys));
}

double CallTimes::seconds(const PlanCall& op) const {
  if (measured_ != nullptr)
    if (const std::optional<double> seconds = measured_->seconds(op))
      return std::max(*seconds + platform_.measured->op_seconds, 0.0);
  return modelled_seconds(op);
}

double CallTimes::modelled_seconds(const PlanCall& op) const {
  const auto rows = static_cast<double>(op.rows), columns = static_cast<double>(op.columns);
  switch (op.kind) {
    case CallKind::gemm:
      return gemm_seconds(rows, columns, static_cast<double>(op.depth), 1, op.dtype);
    case CallKind::attention_forward:
    case CallKind::attention_backward:
      return attention_seconds(op);
    case CallKind::memory:
      return software_[Constant::memory] * (copy_seconds(op.bytes) + platform_.gpu.launch_us * kMicro);
    case CallKind::optimizer:
      return copy_seconds(op.bytes) + platform_.gpu.launch_us * kMicro;
    case CallKind::collective:
      break;
  }
  return 0;
}

double CallTimes::network_bandwidth() const {
  return platform_.network_bandwidth * kGiga * platform_.network_share * software_[Constant::network] /
         platform_.oversubscription;
}

double CallTimes::nvlink_bandwidth() const { return platform_.nvlink_bandwidth * kGiga * platform_.nvlink_share; }

// Null if that collective was not measured between so many ranks.
const CollectiveTimes* CallTimes::measured_collective(std::string_view name, double ranks) const {
  if (platform_.measured == nullptr || ranks != static_cast<double>(platform_.measured->ranks)) return nullptr;
  const auto found = platform_.measured->collectives.find(std::string(name));
  return found == platform_.measured->collectives.end() ? nullptr : &found->second;
}

// A ring passes through all local members before it leaves the node, so it uses the network ports of all of them.
double CallTimes::collective_seconds(std::string_view name, double bytes, double calls, const GroupPlace& place) const {
  if (place.size <= 1 || calls == 0) return 0;
  if (const CollectiveTimes* measured = measured_collective(name, place.size)) return calls * measured->seconds(bytes / calls);
  const double local = std::clamp(std::floor(platform_.nvlink_domain / place.stride), 1.0, place.size);
  const double domains = std::ceil(place.size / local);
  const double bandwidth = domains > 1 ? std::min(nvlink_bandwidth(), local * network_bandwidth()) : nvlink_bandwidth();
  // Within a domain a piece is passed from member to member; between domains a tree is faster.
  const double latency = platform_.nvlink_latency_us * (local - 1) +
                         (domains > 1 ? platform_.network_latency_us * std::ceil(std::log2(domains)) : 0);
  const double rounds = name == "all_reduce" ? 2 : 1;
  return rounds * (bytes * (place.size - 1) / place.size / bandwidth + calls * latency * kMicro);
}

double CallTimes::message_seconds(double bytes, double stride) const {
  if (platform_.measured != nullptr && stride < static_cast<double>(platform_.measured->ranks))
    if (const auto* measured = measured_collective("sendrecv", static_cast<double>(platform_.measured->ranks)))
      return measured->seconds(bytes);
  const bool leaves_domain = stride >= platform_.nvlink_domain;
  const double bandwidth = leaves_domain ? network_bandwidth() : nvlink_bandwidth();
  return bytes / bandwidth + (leaves_domain ? platform_.network_latency_us : platform_.nvlink_latency_us) * kMicro;
}

}  // namespace trireme
