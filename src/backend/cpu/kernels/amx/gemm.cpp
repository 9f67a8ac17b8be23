// The bf16 product on tile registers: 2 x 2 tiles of sums, two tiles of A and two of B per step of 32 k.
//
// Panels are 32 wide and hold, for each step of 32 k, two tiles of 1 KiB. A tile of A is 16 rows of 32 k; a tile of B is 16 pairs
// of k for 16 columns, as the instruction wants it.
#include "backend/cpu/kernels/gemm.h"

#include "backend/cpu/kernels/amx/gemm_pack.h"
#include "backend/cpu/kernels/amx/tiles.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kTile = 16;  // rows and columns of a tile of sums
constexpr int64_t kSumsStride = kPanelWidth * sizeof(float);

TRIREME_INLINE void multiply_tile(int64_t k, const uint8_t* a, const uint8_t* b, float* sums, bool first) {
  float* lower = sums + kTile * kPanelWidth;
  if (first) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
  } else {
    TILE_LOAD(0, sums, kSumsStride);
    TILE_LOAD(1, sums + kTile, kSumsStride);
    TILE_LOAD(2, lower, kSumsStride);
    TILE_LOAD(3, lower + kTile, kSumsStride);
  }
  for (int64_t i = 0; i < k; i += kTileK, a += kStepBytes, b += kStepBytes) {
    TILE_LOAD(4, a, kTileRowBytes);
    TILE_LOAD(6, b, kTileRowBytes);
    TILE_DPBF16(0, 4, 6);
    TILE_LOAD(7, b + kTileBytes, kTileRowBytes);
    TILE_DPBF16(1, 4, 7);
    TILE_LOAD(5, a + kTileBytes, kTileRowBytes);
    // The B panel stays in the first level cache; A comes from the second, and two steps ahead hides that.
    for (int line = 0; line < kStepBytes; line += 64) __builtin_prefetch(a + 2 * kStepBytes + line);
    TILE_DPBF16(2, 5, 6);
    TILE_DPBF16(3, 5, 7);
  }
  TILE_STORE(0, sums, kSumsStride);
  TILE_STORE(1, sums + kTile, kSumsStride);
  TILE_STORE(2, lower, kSumsStride);
  TILE_STORE(3, lower + kTile, kSumsStride);
}

void multiply(int64_t panels, int64_t k, const void* a, const void* b, float* sums, bool first, const void*) {
  configure_tiles();
  const uint8_t* a_panel = static_cast<const uint8_t*>(a);
  for (int64_t panel = 0; panel < panels; ++panel, a_panel += k * kPanelKBytes, sums += kPanelWidth * kPanelWidth)
    multiply_tile(k, a_panel, static_cast<const uint8_t*>(b), sums, first);
  release_tiles();
}

// multiply on operands that stay in the first level cache. They are not constant, or the compiler would know the sums.
double exercise(int64_t rounds) {
  constexpr int64_t kSteps = 8;
  alignas(64) uint8_t a[kSteps * kStepBytes], b[kSteps * kStepBytes];
  alignas(64) float sums[kPanelWidth * kPanelWidth];
  for (uint8_t& x : a) x = 0x3f;
  for (uint8_t& x : b) x = 0x3f;
  for (int64_t round = 0; round < rounds; ++round) {
    multiply(1, kSteps * kTileK, a, b, sums, true, nullptr);
    asm volatile("" : : "r"(a), "r"(b), "r"(sums) : "memory");
  }
  return 2.0 * kPanelWidth * kPanelWidth * static_cast<double>(kSteps * kTileK * rounds);
}

}  // namespace

const GemmKernel kGemmKernel = {
    .tile_rows = kPanelWidth,
    .tile_columns = kPanelWidth,
    .k_step = kTileK,
    .k_block = 512,
    .finish_panels = 4,  // each call configures the tiles
    .task_rows = 512,
    .task_columns = 512,
    .a_k_bytes = kPanelKBytes,
    .b_k_bytes = kPanelKBytes,
    .pack_a = {{nullptr, nullptr},
               {pack_tiles<Operand::a, Layout::k_contiguous>, pack_tiles<Operand::a, Layout::width_contiguous>}},
    .pack_b = {{nullptr, nullptr},
               {pack_tiles<Operand::b, Layout::k_contiguous>, pack_tiles<Operand::b, Layout::width_contiguous>}},
    .multiply = multiply,
    .exercise = exercise,
};

}  // namespace trireme::cpu::TRIREME_ISA
