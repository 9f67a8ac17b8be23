// The AMX tile registers, or an emulation of them with the same layout and semantics. A tile is 16 rows of 64 bytes.
// TILE_DPBF16(c, a, b): c[16 x 16 f32] += a[16 x 32 bf16] b, where b holds 16 rows of 16 pairs: row r, pair n = elements (2r, n)
// and (2r+1, n) of the 32 x 16 matrix. Tile numbers must be literal digits, because the instructions name registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace trireme::cpu::TRIREME_ISA {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

#if !defined(TRIREME_AMX_EMULATED)

}  // namespace trireme::cpu::TRIREME_ISA

  #include <immintrin.h>

namespace trireme::cpu::TRIREME_ISA {

// Each thread must configure its tiles before the first use in a kernel call, and release them afterwards, so that a context
// switch does not save 8 KiB.
inline void configure_tiles() {
  static const TileConfig config;
  _tile_loadconfig(&config);
}
inline void release_tiles() { _tile_release(); }

  #define TILE_ZERO(t) _tile_zero(t)
  // The compiler does not know that the instruction reads memory; the clobber keeps earlier stores before it.
  #define TILE_LOAD(t, from, stride)                     \
    do {                                                 \
      __asm__ volatile("" ::: "memory");                 \
      _tile_loadd(t, from, static_cast<size_t>(stride)); \
    } while (0)
  // The same for data that is used once: it does not fill L1.
  #define TILE_STREAM(t, from, stride)                          \
    do {                                                        \
      __asm__ volatile("" ::: "memory");                        \
      _tile_stream_loadd(t, from, static_cast<size_t>(stride)); \
    } while (0)
  #define TILE_STORE(t, to, stride) _tile_stored(t, to, static_cast<size_t>(stride))
  #define TILE_DPBF16(c, a, b) _tile_dpbf16ps(c, a, b)

#else

struct EmulatedTiles {
  uint8_t tile[8][16][64];
};
inline thread_local EmulatedTiles tiles;

inline void configure_tiles() { tiles = {}; }
inline void release_tiles() {}

inline void emulated_load(int t, const void* from, size_t stride) {
  for (size_t r = 0; r < 16; ++r) std::memcpy(tiles.tile[t][r], static_cast<const char*>(from) + r * stride, 64);
}
inline void emulated_store(int t, void* to, size_t stride) {
  for (size_t r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * stride, tiles.tile[t][r], 64);
}
inline float widen(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
inline void emulated_dpbf16(int c, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    float sum[16];
    uint16_t left[32];
    std::memcpy(sum, tiles.tile[c][m], 64);
    std::memcpy(left, tiles.tile[a][m], 64);
    for (int k = 0; k < 16; ++k) {
      uint16_t right[32];
      std::memcpy(right, tiles.tile[b][k], 64);
      for (int n = 0; n < 16; ++n) {
        sum[n] += widen(left[2 * k]) * widen(right[2 * n]);
        sum[n] += widen(left[2 * k + 1]) * widen(right[2 * n + 1]);
      }
    }
    std::memcpy(tiles.tile[c][m], sum, 64);
  }
}

  #define TILE_ZERO(t) std::memset(tiles.tile[t], 0, sizeof tiles.tile[t])
  #define TILE_LOAD(t, from, stride) emulated_load(t, from, static_cast<size_t>(stride))
  #define TILE_STREAM(t, from, stride) TILE_LOAD(t, from, stride)
  #define TILE_STORE(t, to, stride) emulated_store(t, to, static_cast<size_t>(stride))
  #define TILE_DPBF16(c, a, b) emulated_dpbf16(c, a, b)

#endif

}  // namespace trireme::cpu::TRIREME_ISA
