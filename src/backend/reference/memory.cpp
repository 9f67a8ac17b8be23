#include <cstdlib>
#include <cstring>

#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

Memory ReferenceBackend::allocate(int64_t bytes) {
  const size_t size = static_cast<size_t>(round_up(std::max<int64_t>(bytes, 1), Arena::kAlignment));
  void* block = std::aligned_alloc(Arena::kAlignment, size);
  if (block == nullptr) throw Failure("out of memory: {} bytes were asked for", bytes);
  return {.device = Device::host, .block = std::shared_ptr<void>(block, std::free)};
}

void ReferenceBackend::upload(Stream, const void* from, Tensor to) {
  std::memcpy(to.data, from, static_cast<size_t>(to.bytes()));
}

void ReferenceBackend::download(Stream, Tensor from, void* to) { std::memcpy(to, from.data, static_cast<size_t>(from.bytes())); }

void ReferenceBackend::run(Stream, const Fill& op) {
  for (int64_t i = 0; i < op.out.count(); ++i) set(op.out, i, op.value);
}

void ReferenceBackend::run(Stream, const Copy& op) {
  CHECK_EQ(op.from.count(), op.to.count());
  if (op.from.dtype == op.to.dtype) {
    std::memmove(op.to.data, op.from.data, static_cast<size_t>(op.to.bytes()));
    return;
  }
  for (int64_t i = 0; i < op.to.count(); ++i) set(op.to, i, get(op.from, i));
}

void ReferenceBackend::run(Stream, const Accumulate& op) {
  CHECK_EQ(op.from.count(), op.to.count());
  for (int64_t i = 0; i < op.to.count(); ++i) set(op.to, i, get(op.to, i) + get(op.from, i));
}

void ReferenceBackend::run(Stream, const RandomNormal& op) {
  for (int64_t i = 0; i < op.out.count(); ++i) {
    const int64_t index = op.first + i;
    const auto block = static_cast<uint64_t>(index / 4);
    const auto draws = normals(philox(op.seed, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), op.site, 0}));
    set(op.out, i, op.mean + op.deviation * draws[static_cast<size_t>(index % 4)]);
  }
}

}  // namespace trireme
