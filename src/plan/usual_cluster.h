// Which shipped platform a GPU is usually in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// By the planner's name of the GPU: "h100-80". A UserError if no shipped platform has it.
std::string usual_cluster(std::string_view gpu);

// By the name that a driver gives: "NVIDIA A100-SXM4-40GB".
std::optional<std::string> usual_cluster_of_device(std::string_view device);

}  // namespace trireme
