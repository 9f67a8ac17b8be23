// Philox for whole rows of dropout: 16 counters at once, 64 draws, the same bits as dropout_block of base/philox.h.
//
//   const DropoutRow row{seed, site, row_key, threshold, keep_scale};
//   const DropoutFactors drop = dropout_factors(row, column);   // column, ..., column + 63
//   store(out + column + 16 * i, load(x + column + 16 * i) * drop.of[i]);
#pragma once

#include "backend/cpu/kernels/simd.h"

#if defined(__SSE2__)
  #include <immintrin.h>
#endif

namespace trireme::cpu::TRIREME_ISA {

struct DropoutRow {
  uint64_t seed = 0;
  uint32_t site = 0;
  int64_t row_key = 0;
  uint32_t threshold = 0;  // dropout_threshold(probability)
  float keep_scale = 1;    // 1 / (1 - probability)
};

// The factors of 64 consecutive elements: keep_scale, or 0 if dropped.
struct DropoutFactors {
  f32x16 of[4];
};
constexpr int64_t kDropoutBatch = 64;

// Counters are in 64-bit lanes, as the multiplication requires, in the widest registers of the instruction set. The upper half of
// a lane is undefined between rounds, because the multiplication ignores it.
#if defined(__AVX512F__)
constexpr int kPhiloxLanes = 8;
#elif defined(__AVX2__)
constexpr int kPhiloxLanes = 4;
#else
constexpr int kPhiloxLanes = 2;
#endif
using PhiloxLanes = uint64_t __attribute__((vector_size(kPhiloxLanes * 8)));

// The 64-bit products of the lower halves.
TRIREME_INLINE PhiloxLanes multiply_low_halves(PhiloxLanes a, uint32_t factor) {
#if defined(__AVX512F__)
  // A full mask, because the plain form of this intrinsic makes gcc 12 warn of an uninitialised operand.
  return reinterpret_cast<PhiloxLanes>(_mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), _mm512_set1_epi64(factor)));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxLanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(factor)));
#elif defined(__SSE2__)
  return reinterpret_cast<PhiloxLanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(factor)));
#else
  return (a & 0xffffffffu) * factor;
#endif
}

struct PhiloxState {
  PhiloxLanes word[4];
};

TRIREME_INLINE void philox_round(PhiloxState& state, uint32_t key0, uint32_t key1) {
  const PhiloxLanes product0 = multiply_low_halves(state.word[0], 0xD2511F53u);
  const PhiloxLanes product1 = multiply_low_halves(state.word[2], 0xCD9E8D57u);
  state = {{(product1 >> 32) ^ state.word[1] ^ key0, product1, (product0 >> 32) ^ state.word[3] ^ key1, product0}};
}

// Lane i of word w: word w of the block of counter word 0 = first + kPhiloxOrder[i].
struct PhiloxBlocks {
  u32x16 word[4];
};
// With this order, shuffles within groups of four lanes make words 0..3 of neighbouring blocks adjacent.
constexpr u32x16 kPhiloxOrder = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};

TRIREME_INLINE PhiloxBlocks dropout_blocks(const DropoutRow& row, uint32_t first) {
  constexpr int kPieces = 8 / kPhiloxLanes;
  const u32x16 counters = first + kPhiloxOrder;
  PhiloxBlocks blocks;
  for (int piece = 0; piece < kPieces; ++piece) {
    const int offset = piece * 2 * kPhiloxLanes;  // in 32-bit lanes
    PhiloxLanes pair;
    __builtin_memcpy(&pair, reinterpret_cast<const uint32_t*>(&counters) + offset, sizeof pair);
    const PhiloxLanes word1 = PhiloxLanes{} + row.site;
    const PhiloxLanes word2 = PhiloxLanes{} + static_cast<uint32_t>(row.row_key);
    const PhiloxLanes word3 = PhiloxLanes{} + static_cast<uint32_t>(row.row_key >> 32);
    PhiloxState even = {{pair, word1, word2, word3}}, odd = {{pair >> 32, word1, word2, word3}};
    uint32_t key0 = static_cast<uint32_t>(row.seed), key1 = static_cast<uint32_t>(row.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      philox_round(even, key0, key1);
      philox_round(odd, key0, key1);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; ++w) {
      const PhiloxLanes joined = (even.word[w] & 0xffffffffu) | (odd.word[w] << 32);
      __builtin_memcpy(reinterpret_cast<uint32_t*>(&blocks.word[w]) + offset, &joined, sizeof joined);
    }
  }
  return blocks;
}

// The factors of elements first, ..., first + 63 of the row; first must be a multiple of 4.
TRIREME_INLINE DropoutFactors dropout_factors(const DropoutRow& row, int64_t first) {
  const PhiloxBlocks blocks = dropout_blocks(row, static_cast<uint32_t>(first >> 2));
  f32x16 factor[4];
  for (int w = 0; w < 4; ++w) factor[w] = blocks.word[w] >= row.threshold ? splat(row.keep_scale) : splat(0);
  f32x16 low01, high01, low23, high23;  // within each group of four lanes: lanes 0 and 1, lanes 2 and 3, of two words
  low01 = __builtin_shufflevector(factor[0], factor[1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  high01 = __builtin_shufflevector(factor[0], factor[1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  low23 = __builtin_shufflevector(factor[2], factor[3], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  high23 = __builtin_shufflevector(factor[2], factor[3], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  DropoutFactors result;
  result.of[0] = __builtin_shufflevector(low01, low23, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  result.of[1] = __builtin_shufflevector(low01, low23, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  result.of[2] = __builtin_shufflevector(high01, high23, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  result.of[3] = __builtin_shufflevector(high01, high23, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  return result;
}

}  // namespace trireme::cpu::TRIREME_ISA
