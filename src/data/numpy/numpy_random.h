// The two numpy generators that decide the sample order of the reference systems, bit-equal to numpy. Our own draws
// (initialisation, dropout) use base/philox.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace trireme {

// numpy.random.RandomState(seed): MT19937 with the classic seeding, which is also std::mt19937's.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : engine_(seed) {}

  // Uniform in [0, max]: draws masked values until one is not above max; the mask is the smallest that covers max. A max of more
  // than 32 bits takes two draws, the upper word first.
  uint64_t interval(uint64_t max);

  // Fisher-Yates from the end, as RandomState.shuffle; the order does not depend on the element type.
  template <class T>
  void shuffle(std::span<T> values) {
    // The draws do not depend on the values. So a block of draws is made first and their memory is prefetched: a large shuffle
    // would otherwise mostly wait for memory.
    std::array<size_t, 64> partners;
    for (size_t i = values.size(); i > 1;) {
      const size_t block = std::min(partners.size(), i - 1);
      for (size_t k = 0; k < block; ++k) {
        partners[k] = interval(i - 1 - k);
        __builtin_prefetch(&values[partners[k]], 1);
      }
      for (size_t k = 0; k < block; ++k) std::swap(values[i - 1 - k], values[partners[k]]);
      i -= block;
    }
  }

 private:
  std::mt19937 engine_;
};

// numpy.random.default_rng(seed): PCG64 (128-bit state, XSL-RR output), seeded through SeedSequence.
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint64_t seed);

  uint64_t next64();
  uint32_t next32();  // returns the low half of a 64-bit draw, then its high half

  // Uniform in [low, high), by Lemire's method. A range that fits in 32 bits uses 32-bit draws for every dtype, so this equals
  // numpy's integers(low, high) for both int32 and int64.
  int64_t integers(int64_t low, int64_t high);

 private:
  using Word128 = unsigned __int128;

  Word128 state_ = 0;
  Word128 increment_ = 0;
  uint32_t buffered_ = 0;  // the high half for the next call of next32
  bool has_buffered_ = false;
};

}  // namespace trireme
