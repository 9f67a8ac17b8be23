#include "plan/usual_cluster.h"

#include <array>

#include "base/error.h"
#include "plan/hardware.h"

namespace trireme {
namespace {

struct UsualCluster {
  std::string_view platform;
  std::string_view device;  // the GPU's name in its driver
};

// The first that fits counts.
constexpr std::array kUsualClusters{
    UsualCluster{"dgx-h100", "NVIDIA H100 80GB HBM3"}, UsualCluster{"dgx-h200", "NVIDIA H200"},
    UsualCluster{"dgx-b200", "NVIDIA B200"},           UsualCluster{"gb200-nvl72", "NVIDIA GB200"},
    UsualCluster{"dgx-a100", "NVIDIA A100-SXM4-80GB"}, UsualCluster{"aws-p4d", "NVIDIA A100-SXM4-40GB"},
};

}  // namespace

std::string usual_cluster(std::string_view gpu) {
  for (const UsualCluster& cluster : kUsualClusters)
    if (load_platform(std::string(cluster.platform)).gpu.name == gpu) return std::string(cluster.platform);
  throw UserError("--cluster is missing: no shipped cluster has the GPU {} of the recipe", gpu);
}

std::optional<std::string> usual_cluster_of_device(std::string_view device) {
  for (const UsualCluster& cluster : kUsualClusters)
    if (device == cluster.device) return std::string(cluster.platform);
  return std::nullopt;
}

}  // namespace trireme
