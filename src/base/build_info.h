// Build information; cmake/build_info.cmake writes the values at every build.
#pragma once

namespace trireme {

extern const char* const kVersion;  // "0.1.0"
extern const char* const kCommit;   // "1fa19b0c2d3e", with suffix "-dirty" if files differed, or "unknown"

}  // namespace trireme
