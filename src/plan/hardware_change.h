// What if: a platform with some values changed by the user.
#pragma once

#include <string>

#include "plan/hardware.h"

namespace trireme {

// "network_bandwidth=2x" or "memory_gib=141": a key of the platform's or of the GPU's file and a number, or a factor with x. A
// dot is read as an underscore. A UserError lists the keys.
void change_platform(Platform& platform, const std::string& change);

// "80GB" or "74.5GiB" in GiB. `option` is what the user typed before it.
double gib_from_text(const std::string& text, const std::string& option);

}  // namespace trireme
