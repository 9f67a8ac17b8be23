// Small uploads through pinned memory, so that the host does not wait until the device has read its buffer.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace trireme::cuda {

class Staging {
 public:
  Staging();
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // `from` may be reused when this returns.
  void upload(const void* from, void* to, size_t bytes, cudaStream_t stream);

 private:
  static constexpr size_t kSlots = 16;
  static constexpr size_t kSlotBytes = size_t{1} << 20;
  struct Slot {
    char* memory = nullptr;
    cudaEvent_t read = nullptr;  // reached when the device has read the slot
  };
  std::array<Slot, kSlots> slots_;
  char* memory_ = nullptr;
  size_t next_ = 0;
};

}  // namespace trireme::cuda
