// What the planner knows of the software of a run, from profiles/*.yaml: which ops it fuses, what overlaps, and a few constants.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class AttentionKernel : uint8_t { unfused, flash };

// The constants of a profile. Each says what it means in constant_rows().
enum class Constant : uint8_t { gemm, memory, attention, tp_exposed, network, host, step, count_ };
inline constexpr size_t kConstants = static_cast<size_t>(Constant::count_);

struct ConstantRow {
  Constant constant;
  std::string_view name, meaning;
  double low = 0, high = 0;  // of the fit
};
const std::array<ConstantRow, kConstants>& constant_rows();

struct SoftwareProfile {
  std::string name, summary;
  AttentionKernel attention = AttentionKernel::flash;
  bool overlaps_grad_sync = false, overlaps_param_sync = false, overlaps_p2p = false;
  bool distributed_optimizer = false;
  bool splits_messages = false;  // each TP rank sends its part of the activations between stages
  std::string shares;            // the profile that it takes its other constants from; empty: all are its own
  std::vector<Constant> fitted;  // its own constants that the fit may change
  std::array<double, kConstants> constants{1, 1, 1, 1, 1, 0, 0};

  double operator[](Constant constant) const { return constants[static_cast<size_t>(constant)]; }
  bool fits(Constant constant) const;
  double& operator[](Constant constant) { return constants[static_cast<size_t>(constant)]; }
};

// A UserError names the shipped ones.
SoftwareProfile load_software_profile(const std::string& name_or_path);

}  // namespace trireme
