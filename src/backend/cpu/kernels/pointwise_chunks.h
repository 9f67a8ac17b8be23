// Walks a row 16 elements at a time, the last few masked, so that the body of a loop is written once:
//   for_each_chunk(width, [&](int64_t c, auto lanes) { store(out + c, load(x + c, lanes) * 2, lanes); });
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

struct AllLanes {};
struct FirstLanes {
  int64_t count;
};

template <class T>
TRIREME_INLINE f32x16 load(const T* from, AllLanes) {
  return load(from);
}
template <class T>
TRIREME_INLINE f32x16 load(const T* from, FirstLanes lanes) {
  return load_part(from, lanes.count);
}

template <class T>
TRIREME_INLINE void store(T* to, f32x16 v, AllLanes) {
  store(to, v);
}
template <class T>
TRIREME_INLINE void store(T* to, f32x16 v, FirstLanes lanes) {
  store_part(to, v, lanes.count);
}

// Sets the lanes outside of the row to zero, for values that are summed.
TRIREME_INLINE f32x16 only(f32x16 v, AllLanes) { return v; }
TRIREME_INLINE f32x16 only(f32x16 v, FirstLanes lanes) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < static_cast<int32_t>(lanes.count) ? v : f32x16{};
}

template <class Body>
TRIREME_INLINE void for_each_chunk(int64_t begin, int64_t end, Body&& body) {
  int64_t c = begin;
  for (; c + kLanes <= end; c += kLanes) body(c, AllLanes{});
  if (c < end) body(c, FirstLanes{end - c});
}
template <class Body>
TRIREME_INLINE void for_each_chunk(int64_t count, Body&& body) {
  for_each_chunk(0, count, body);
}

}  // namespace trireme::cpu::TRIREME_ISA
