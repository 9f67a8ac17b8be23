#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "backend/cpu/cpu_backend.h"

namespace trireme {
namespace {

// Blocks of at least this size are mapped directly and use huge pages. A step touches all of them, and with small pages much of
// its time would be spent on TLB misses.
constexpr int64_t kHugePage = int64_t{2} << 20;

[[noreturn]] void out_of_memory(int64_t bytes) { throw Failure("out of memory: {} bytes were asked for", bytes); }

Memory allocate_pages(int64_t bytes) {
  // One huge page more than needed, so that the block can start at a huge-page boundary.
  const auto mapped = static_cast<size_t>(round_up(bytes, kHugePage) + kHugePage);
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) out_of_memory(bytes);
  madvise(pages, mapped, MADV_HUGEPAGE);  // only a hint; works without huge pages too
  const std::shared_ptr<void> mapping(pages, [mapped](void* address) { munmap(address, mapped); });
  const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(pages));
  return {.device = Device::host,
          .block = std::shared_ptr<void>(mapping, static_cast<char*>(pages) + (round_up(address, kHugePage) - address))};
}

}  // namespace

Memory CpuBackend::allocate(int64_t bytes) {
  CHECK(bytes >= 0);
  if (bytes >= kHugePage) return allocate_pages(bytes);
  void* block = std::aligned_alloc(Arena::kAlignment, static_cast<size_t>(round_up(bytes + 1, Arena::kAlignment)));
  if (block == nullptr) out_of_memory(bytes);
  return {.device = Device::host, .block = std::shared_ptr<void>(block, std::free)};
}

void CpuBackend::set_scratch(Stream stream, Tensor scratch) {
  CHECK(stream == kCompute);
  CHECK(scratch.dtype == DType::u8);
  scratch_ = scratch;
}

void CpuBackend::upload(Stream, const void* from, Tensor to) { std::memcpy(to.data, from, static_cast<size_t>(to.bytes())); }
void CpuBackend::download(Stream, Tensor from, void* to) { std::memcpy(to, from.data, static_cast<size_t>(from.bytes())); }

std::string CpuBackend::description() const {
  return fmt::format("cpu: {} thread{}, {}", pool_.size(), pool_.size() == 1 ? "" : "s", cpu::name_of(isa_));
}

}  // namespace trireme
