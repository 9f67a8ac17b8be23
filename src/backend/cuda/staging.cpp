#include "backend/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/check.h"

namespace trireme::cuda {

Staging::Staging() {
  CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&memory_), kSlots * kSlotBytes));
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].memory = memory_ + i * kSlotBytes;
    CUDA_CHECK(cudaEventCreateWithFlags(&slots_[i].read, cudaEventDisableTiming));
  }
}

Staging::~Staging() {
  for (const Slot& slot : slots_) cudaEventDestroy(slot.read);
  cudaFreeHost(memory_);
}

void Staging::upload(const void* from, void* to, size_t bytes, cudaStream_t stream) {
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    const Slot& slot = slots_[next_];
    next_ = (next_ + 1) % kSlots;
    const size_t count = std::min(kSlotBytes, bytes - done);
    CUDA_CHECK(cudaEventSynchronize(slot.read));
    std::memcpy(slot.memory, static_cast<const char*>(from) + done, count);
    CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(to) + done, slot.memory, count, cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaEventRecord(slot.read, stream));
  }
}

}  // namespace trireme::cuda
