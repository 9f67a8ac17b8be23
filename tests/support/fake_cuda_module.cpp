// libtrireme_cuda.so for tests: a FakeDevice for every GPU. In a folder with the program, a libcuda.so.1 and NCCL's stand-in, the
// program runs as it does with as many GPUs as FAKE_GPUS says.
#include <cstdlib>

#include "support/fake_device.h"

extern "C" __attribute__((visibility("default"))) int trireme_cuda_device_count() {
  const char* count = std::getenv("FAKE_GPUS");
  return count != nullptr ? std::atoi(count) : 0;
}

extern "C" __attribute__((visibility("default"))) trireme::Backend* trireme_make_cuda_backend(int device) {
  return new trireme::FakeDevice(static_cast<uint64_t>(device));
}
