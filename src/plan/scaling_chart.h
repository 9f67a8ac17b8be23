// Scaling curves as a picture: tokens/s and efficiency over the number of GPUs.
#pragma once

#include <string>

#include "plan/scaling.h"

namespace trireme {

// An SVG of its own, on white.
std::string scaling_svg(const ScalingCurves& curves, const std::string& recipe);

}  // namespace trireme
