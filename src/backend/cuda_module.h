// Loads the CUDA backend. It is a separate module, libtrireme_cuda.so beside the program, because the libraries it needs are
// large. A program that does not use a GPU starts without them and runs where they are not installed.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace trireme {

// The number of GPUs that this process may use, as CUDA_VISIBLE_DEVICES says; 0 without a driver.
int cuda_device_count();

// Why cuda_device_count() is 0.
struct GpuObstacle {
  std::string text;      // "no GPU was found"
  bool has_gpu = false;  // there is a driver, but this program cannot use it
};
GpuObstacle cuda_obstacle();

// Throws a UserError that says what is missing: the module, a library, a GPU.
std::unique_ptr<Backend> make_cuda_backend(int device = 0);

}  // namespace trireme
