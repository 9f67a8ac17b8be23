// Include this to have NCCL's calls carried out by the stand-in (nccl_stand_in/api.cpp), between FakeDevices.
#pragma once

#include <cstdlib>

namespace trireme {

[[maybe_unused]] inline const bool kNcclIsStoodInFor =
    ::setenv("TRIREME_NCCL", TRIREME_BINARY_DIR "/tests/libnccl_stand_in.so", 1) == 0;

}  // namespace trireme
