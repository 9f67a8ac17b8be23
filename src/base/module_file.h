// Where the modules of the program are: shared libraries that it loads only when it needs them, so that it starts where the
// libraries behind them (MPI, CUDA) are not installed.
#pragma once

#include <filesystem>

namespace trireme {

// The path of a module such as libtrireme_mpi.so; empty if this build has none. In a build folder it is beside the program, and
// its tests are one folder below. After installation it is in ../lib/trireme.
std::filesystem::path module_file(const char* name);

}  // namespace trireme
