#include "base/large_array.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/error.h"

namespace trireme {

LargePages::LargePages(size_t bytes) {
  constexpr size_t kPage = size_t{1} << 21;
  bytes_ = (bytes + kPage - 1) / kPage * kPage;
  // Maps one page more, so that an aligned start fits; the rest is unmapped.
  void* mapped = mmap(nullptr, bytes_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(mapped);
  const size_t before = (kPage - address % kPage) % kPage;
  begin_ = static_cast<char*>(mapped) + before;
  if (before != 0) munmap(mapped, before);
  munmap(static_cast<char*>(begin_) + bytes_, kPage - before);
  // Before the first touch. Only a hint. An array that fills less than half a page does not need one.
  if (2 * bytes >= kPage) madvise(begin_, bytes_, MADV_HUGEPAGE);
}

LargePages::~LargePages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

}  // namespace trireme
