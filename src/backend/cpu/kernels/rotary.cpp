#include "backend/cpu/kernels/rotary.h"

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

using f64x8 = double __attribute__((vector_size(64)));
using u64x8 = uint64_t __attribute__((vector_size(64)));
using f32x8 = float __attribute__((vector_size(32)));

struct Angles {
  float cosine[kMostRotaryPairs];
  float sine[kMostRotaryPairs];
};

// Angles are counted in turns and reduced in f64, so they are as accurate at position 1e6 as at 0. Quarter turns are subtracted
// until |angle| <= pi/4, where the polynomials (of f32 accuracy) are valid, and then applied by swapping and negating.
TRIREME_INLINE void fill_angles(const RotaryArguments& a, int32_t position, Angles& angles) {
  for (int64_t i = 0; i < a.pairs; i += 8) {
    f64x8 quarters;
    __builtin_memcpy(&quarters, a.turns_per_position + i, sizeof quarters);
    quarters *= 4.0 * position;
    const f64x8 shifted = quarters + 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer in the low bits
    u64x8 quadrant;
    __builtin_memcpy(&quadrant, &shifted, sizeof quadrant);
    const f64x8 x = (quarters - (shifted - 6755399441055744.0)) * 1.5707963267948966;
    const f64x8 x2 = x * x;
    const f64x8 sine = x + x * x2 * (-1.6666654611e-1 + x2 * (8.3321608736e-3 + x2 * -1.9515295891e-4));
    const f64x8 cosine =
        1 - 0.5 * x2 + x2 * x2 * (4.166664568298827e-2 + x2 * (-1.388731625493765e-3 + x2 * 2.443315711809948e-5));
    const auto swapped = (quadrant & 1) != 0;
    const auto negative_cosine = ((quadrant + 1) & 2) != 0;
    const auto negative_sine = (quadrant & 2) != 0;
    f64x8 c = swapped ? sine : cosine, s = swapped ? cosine : sine;
    c = negative_cosine ? -c : c;
    s = negative_sine ? -s : s;
    const f32x8 cosine_f32 = __builtin_convertvector(c, f32x8), sine_f32 = __builtin_convertvector(a.backward ? -s : s, f32x8);
    __builtin_memcpy(angles.cosine + i, &cosine_f32, sizeof cosine_f32);
    __builtin_memcpy(angles.sine + i, &sine_f32, sizeof sine_f32);
  }
}

template <class T>
TRIREME_INLINE void rotate_head(const Angles& angles, int64_t pairs, T* head) {
  int64_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    const f32x16 x = load(head + i), y = load(head + pairs + i), c = load(angles.cosine + i), s = load(angles.sine + i);
    store(head + i, x * c - y * s);
    store(head + pairs + i, y * c + x * s);
  }
  if (const int64_t rest = pairs - i; rest > 0) {
    const f32x16 x = load_part(head + i, rest), y = load_part(head + pairs + i, rest);
    const f32x16 c = load_part(angles.cosine + i, rest), s = load_part(angles.sine + i, rest);
    store_part(head + i, x * c - y * s, rest);
    store_part(head + pairs + i, y * c + x * s, rest);
  }
}

template <class T>
void rotate(const RotaryArguments& a, int64_t begin, int64_t end) {
  Angles angles;
  for (int64_t n = begin; n < end; ++n) {
    fill_angles(a, a.positions[n], angles);
    T* row = static_cast<T*>(a.heads) + n * a.row_stride;
    for (int64_t h = 0; h < a.count; ++h) rotate_head(angles, a.pairs, row + h * a.width);
  }
}

}  // namespace

const RotaryKernels rotary_kernels = {.rotate = {.f32 = rotate<float>, .bf16 = rotate<uint16_t>, .f16 = rotate<f16>}};

}  // namespace trireme::cpu::TRIREME_ISA
