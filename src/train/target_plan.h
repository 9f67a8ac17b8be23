// The memory that a recipe needs on the GPU it is made for, computed on any machine: of the rank that needs most, by kind, and
// whether it fits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "train/memory_profile.h"

namespace trireme {

struct GpuKind {
  std::string_view name;  // h100-80: the model and the gigabytes its maker gives
  int64_t memory = 0;     // bytes that a driver reports
  int64_t threads = 0;    // of a CPU; 0: a GPU
};

// By its name, or by the model where that has one size: h100-80, h100, H200. A UserError that lists them if there is no such GPU.
const GpuKind& find_gpu(std::string_view name);

// The GPU that a recipe is made for, as its name says (proxy/h200); h100-80 where it says none.
const GpuKind& gpu_of_recipe(std::string_view recipe);

struct TargetPlan {
  int64_t rank = 0;      // the one that takes most
  std::string holdings;  // what it holds of the model
  std::vector<std::pair<std::string, int64_t>> rows;
  int64_t total = 0;
  int64_t host_states = 0;  // bytes in host memory, for each rank
  GpuKind gpu;
  std::optional<MemoryProfile> step;  // of that rank

  int64_t left() const { return gpu.memory - total; }  // below 0: what is missing
};

// Records a step of the ranks that can be the largest. The settings must be valid.
TargetPlan plan_for_target(const Settings& settings, const GpuKind& gpu);

// Four lines: "memory  rank 0 of 8 takes most ..." and "gpu     h100-80 has ...: fits, ... left", and the two of the step.
std::string text_of(const TargetPlan& run, const Settings& settings);
nlohmann::ordered_json json_of(const TargetPlan& run);

}  // namespace trireme
