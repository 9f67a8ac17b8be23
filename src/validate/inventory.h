// What one node has, as named facts: from /proc, /sys, limits and a few programs. A fact that cannot be read is not there.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

using Facts = std::map<std::string, std::string, std::less<>>;

// `root` is "/" or the root of a tree like it, for tests.
Facts read_inventory(const std::filesystem::path& root = "/");

// The facts of the GPUs in the output of nvidia-smi, of which kGpuQuery is the question. Rows that cannot be read are left out.
inline constexpr std::string_view kGpuQuery =
    "name,driver_version,memory.total,ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active,clocks.max.sm,"
    "clocks.sm,pcie.link.width.current,temperature.gpu";
Facts gpu_facts(std::string_view csv);

std::string inventory_line(const Facts& facts);  // "2 cores of ..., 23.5 GiB, ..."

}  // namespace trireme
