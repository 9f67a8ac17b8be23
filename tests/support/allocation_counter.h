// Counts the heap allocations of the whole test program. To be included by one file of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace trireme {

inline std::atomic<int64_t> allocation_count{0};

}  // namespace trireme

// Not inlined: where gcc sees malloc() or free() next to new or delete, it reports a mismatched pair.
[[gnu::noinline]] void* operator new(size_t size) {
  ++trireme::allocation_count;
  if (void* block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++trireme::allocation_count;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
