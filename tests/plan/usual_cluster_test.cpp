// The platforms that GPUs are usually in.
#include "plan/usual_cluster.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/hardware.h"

namespace trireme {
namespace {

TEST(UsualCluster, HasTheGpu) {
  for (const char* gpu : {"h100-80", "h200-141", "b200-180", "gb200-186", "a100-80", "a100-40"})
    EXPECT_EQ(load_platform(usual_cluster(gpu)).gpu.name, gpu);
  EXPECT_THROW(usual_cluster("t4-16"), UserError);
}

TEST(UsualCluster, IsFoundByTheNameInTheDriver) {
  EXPECT_EQ(usual_cluster_of_device("NVIDIA H200"), "dgx-h200");
  EXPECT_EQ(usual_cluster_of_device("NVIDIA A100-SXM4-40GB"), "aws-p4d");
  EXPECT_EQ(usual_cluster_of_device("NVIDIA GB200"), "gb200-nvl72");
  EXPECT_EQ(usual_cluster_of_device("NVIDIA H200 NVL"), std::nullopt);
  EXPECT_EQ(usual_cluster_of_device(""), std::nullopt);
}

}  // namespace
}  // namespace trireme
