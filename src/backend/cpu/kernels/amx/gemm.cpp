// The bf16 GEMM on tile registers: 2 x 2 tiles of sums, two tiles of A and two of B per step of 32 k.
//
// Panels are 32 wide and hold two tiles of 1 KiB per step of 32 k. A tile of A is 16 rows of 32 k; a tile of B is 16 pairs of k
// for 16 columns, as the instruction requires.
#include "backend/cpu/kernels/gemm.h"

#include "backend/cpu/kernels/amx/gemm_pack.h"
#include "backend/cpu/kernels/amx/tiles.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr int kTile = 16;  // rows and columns of a tile of sums
constexpr int kLine = 64;
constexpr int64_t kSumsStride = kPanelWidth * sizeof(float);

// Prefetches a part of the next operands into L2 with every step.
class Prefetcher {
 public:
  Prefetcher(Ahead ahead, int64_t steps)
      : next_(static_cast<const char*>(ahead.from)), lines_((ahead.bytes + kLine * steps - 1) / (kLine * steps)) {}

  TRIREME_INLINE void step() {
    for (int64_t line = 0; line < lines_; ++line, next_ += kLine) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const char* next_;
  const int64_t lines_;
};

// Spreads the side work over the steps, because a tile instruction takes few issue slots and many cycles.
class SideSteps {
 public:
  SideSteps(const SideWork& side, int64_t steps) : side_(side), rows_((side.rows + steps - 1) / steps) {}

  TRIREME_INLINE void step() {
    if (done_ >= side_.rows) return;
    const int64_t count = rows_ < side_.rows - done_ ? rows_ : side_.rows - done_;
    side_.run(side_.state, done_, count);
    done_ += count;
  }

 private:
  const SideWork& side_;
  const int64_t rows_;
  int64_t done_ = 0;
};

TRIREME_INLINE void multiply_tile(int64_t k, const uint8_t* a, const uint8_t* b, float* sums, bool first, Prefetcher& prefetcher,
                                  SideSteps& side) {
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
    TILE_STREAM(4, a, kTileRowBytes);
    TILE_LOAD(6, b, kTileRowBytes);
    TILE_DPBF16(0, 4, 6);
    TILE_LOAD(7, b + kTileBytes, kTileRowBytes);
    TILE_DPBF16(1, 4, 7);
    TILE_STREAM(5, a + kTileBytes, kTileRowBytes);
    prefetcher.step();
    TILE_DPBF16(2, 5, 6);
    TILE_DPBF16(3, 5, 7);
    side.step();
  }
  TILE_STORE(0, sums, kSumsStride);
  TILE_STORE(1, sums + kTile, kSumsStride);
  TILE_STORE(2, lower, kSumsStride);
  TILE_STORE(3, lower + kTile, kSumsStride);
}

void multiply(int64_t panels, int64_t k, const void* a, const void* b, float* sums, bool first, Ahead ahead,
              const SideWork& side) {
  const int64_t steps = panels * (k / kTileK);
  Prefetcher prefetcher(ahead, steps);
  SideSteps side_steps(side, steps);
  const uint8_t* a_panel = static_cast<const uint8_t*>(a);
  for (int64_t panel = 0; panel < panels; ++panel) {
    multiply_tile(k, a_panel, static_cast<const uint8_t*>(b), sums, first, prefetcher, side_steps);
    a_panel += k * kPanelKBytes;
    sums += kPanelWidth * kPanelWidth;
  }
}

// The tile instructions of multiply without its loads and stores.
double exercise(int64_t rounds) {
  constexpr int kSteps = 8;
  configure_tiles();
  for (int64_t round = 0; round < rounds * kSteps; ++round) {
    TILE_DPBF16(0, 4, 6);
    TILE_DPBF16(1, 4, 7);
    TILE_DPBF16(2, 5, 6);
    TILE_DPBF16(3, 5, 7);
  }
  release_tiles();
  return 2.0 * kPanelWidth * kPanelWidth * kTileK * static_cast<double>(rounds * kSteps);
}

}  // namespace

const GemmKernel kGemmKernel = {
    .tile_rows = kPanelWidth,
    .tile_columns = kPanelWidth,
    .k_step = kTileK,
    .k_block = 4096,  // sums stay in the tiles over the whole K; both panels are then read from L2
    .task_rows = 512,
    .task_columns = 1 << 20,  // a task takes all B panels, so that its A panels are packed once
    .task_packs_a = true,
    .task_a_bytes = 5 << 18,
    .a_k_bytes = kPanelKBytes,
    .b_k_bytes = kPanelKBytes,
    .pack_a = {{nullptr, nullptr},
               {pack_tiles<Operand::a, Layout::k_contiguous>, pack_tiles<Operand::a, Layout::width_contiguous>}},
    .pack_b = {{nullptr, nullptr},
               {pack_tiles<Operand::b, Layout::k_contiguous>, pack_tiles<Operand::b, Layout::width_contiguous>}},
    .begin_task = configure_tiles,
    .end_task = release_tiles,
    .multiply = multiply,
    .exercise = exercise,
};

}  // namespace trireme::cpu::TRIREME_ISA
