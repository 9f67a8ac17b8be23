// The GEMMs of attention in bf16 on AMX tiles. A right operand of depth K with N columns is stored in pairs, as the tiles
// require: [K/2][N] pairs of elements (2r, n) and (2r+1, n). Blocks are padded so that every GEMM consists of 32 x 32 x 32 steps.
#pragma once

#include "backend/cpu/kernels/amx/tiles.h"
#include "backend/cpu/kernels/attention_block.h"
#include "backend/cpu/kernels/attention_pack.h"

namespace trireme::cpu::TRIREME_ISA::attention {

constexpr int64_t kTile = 32;  // two tile registers high and wide; one deep

// c[32 x 32] (+)= a b.    a: bf16 rows a_stride apart; b: rows of pairs b_stride apart; c: f32 rows c_stride apart.
struct TileProduct {
  int64_t depth = 0;
  const uint16_t* a = nullptr;
  int64_t a_stride = 0;
  const uint32_t* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

TRIREME_INLINE void accumulate_tiles(const TileProduct& t) {
  for (int64_t k = 0; k < t.depth; k += kTile) {
    const uint16_t* a = t.a + k;
    const uint32_t* b = t.b + k / 2 * t.b_stride;
    TILE_LOAD(4, a, t.a_stride * 2);
    TILE_LOAD(6, b, t.b_stride * 4);
    TILE_LOAD(7, b + 16, t.b_stride * 4);
    TILE_LOAD(5, a + 16 * t.a_stride, t.a_stride * 2);
    TILE_DPBF16(0, 4, 6);
    TILE_DPBF16(1, 4, 7);
    TILE_DPBF16(2, 5, 6);
    TILE_DPBF16(3, 5, 7);
  }
  TILE_STORE(0, t.c, t.c_stride * 4);
  TILE_STORE(1, t.c + 16, t.c_stride * 4);
  TILE_STORE(2, t.c + 16 * t.c_stride, t.c_stride * 4);
  TILE_STORE(3, t.c + 16 * t.c_stride + 16, t.c_stride * 4);
}

TRIREME_INLINE void multiply_tiles(const TileProduct& t) {
  TILE_ZERO(0);
  TILE_ZERO(1);
  TILE_ZERO(2);
  TILE_ZERO(3);
  accumulate_tiles(t);
}

TRIREME_INLINE void multiply_add_tiles(const TileProduct& t) {
  TILE_LOAD(0, t.c, t.c_stride * 4);
  TILE_LOAD(1, t.c + 16, t.c_stride * 4);
  TILE_LOAD(2, t.c + 16 * t.c_stride, t.c_stride * 4);
  TILE_LOAD(3, t.c + 16 * t.c_stride + 16, t.c_stride * 4);
  accumulate_tiles(t);
}

// The compiler does not know that tile instructions read memory, so packed data must be stored before them.
TRIREME_INLINE void stores_before_tiles() { __asm__ volatile("" ::: "memory"); }

}  // namespace trireme::cpu::TRIREME_ISA::attention
