// The f32 GEMM. A tile of sums stays in registers; each iteration broadcasts the rows of A and reads one row of B.
#include "backend/cpu/kernels/gemm.h"

#include "backend/cpu/kernels/gemm_pack.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The sums use all registers except those of B, a few for the broadcasts and, without fused multiply-add, the intermediate
// results.
#if defined(__AVX512F__)
constexpr int kTileRows = 14, kColumnRegisters = 2;
#elif defined(__AVX2__)
constexpr int kTileRows = 6, kColumnRegisters = 2;
#else
constexpr int kTileRows = 2, kColumnRegisters = 4;
#endif
constexpr int kTileColumns = kColumnRegisters * kRegisterLanes;
constexpr int kRowStride = (kTileRows + kRegisterLanes - 1) / kRegisterLanes * kRegisterLanes;

TRIREME_INLINE void multiply_tile(int64_t k, const float* __restrict a, const float* __restrict b, float* __restrict sums,
                                  bool first, const char* ahead, int64_t ahead_step) {
  Register tile[kTileRows][kColumnRegisters] = {};
#pragma GCC unroll 4
  for (int64_t i = 0; i < k; ++i, a += kRowStride, b += kTileColumns, ahead += ahead_step) {
    Register columns[kColumnRegisters];
#pragma GCC unroll 4
    for (int part = 0; part < kColumnRegisters; ++part) columns[part] = load_register(b + part * kRegisterLanes);
    __builtin_prefetch(ahead, 0, 2);          // into L2
    __builtin_prefetch(a + 16 * kRowStride);  // A is in L2
#pragma GCC unroll 16
    for (int row = 0; row < kTileRows; ++row) {
      const Register x = broadcast(a[row]);
#pragma GCC unroll 4
      for (int part = 0; part < kColumnRegisters; ++part) tile[row][part] += x * columns[part];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kTileRows; ++row)
#pragma GCC unroll 4
    for (int part = 0; part < kColumnRegisters; ++part) {
      float* to = sums + row * kTileColumns + part * kRegisterLanes;
      store_register(to, first ? tile[row][part] : load_register(to) + tile[row][part]);
    }
}

void multiply(int64_t panels, int64_t k, const void* a, const void* b, float* sums, bool first, Ahead ahead,
              const SideWork& side) {
  // The GEMM and the side work use the same units here, so interleaving them gains nothing.
  if (side.rows > 0) side.run(side.state, 0, side.rows);
  const float* a_panel = static_cast<const float*>(a);
  const char* next = static_cast<const char*>(ahead.from);
  const int64_t ahead_step = (ahead.bytes + panels * k - 1) / (panels * k);
  for (int64_t panel = 0; panel < panels; ++panel) {
    multiply_tile(k, a_panel, static_cast<const float*>(b), sums, first, next, ahead_step);
    a_panel += k * kRowStride;
    sums += kTileRows * kTileColumns;
    next += k * ahead_step;
  }
}

// Runs multiply on operands that stay in L1. They are not constants, because the compiler would then compute the sums itself.
double exercise(int64_t rounds) {
  constexpr int kSteps = 64;
  alignas(64) float a[kSteps * kRowStride], b[kSteps * kTileColumns], sums[kTileRows * kTileColumns];
  for (float& x : a) x = 1.0f;
  for (float& x : b) x = 1.0f;
  for (int64_t round = 0; round < rounds; ++round) {
    multiply(1, kSteps, a, b, sums, true, {}, {});
    asm volatile("" : : "r"(a), "r"(b), "r"(sums) : "memory");
  }
  return 2.0 * kTileRows * kTileColumns * kSteps * static_cast<double>(rounds);
}

}  // namespace

const GemmKernel kGemmKernel = {
    .tile_rows = kTileRows,
    .tile_columns = kTileColumns,
    .k_step = 1,
    .k_block = 192,
    .task_rows = 16 * kTileRows,
    .task_columns = 512,
    .task_packs_a = false,
    .task_a_bytes = 1 << 20,
    .a_k_bytes = 4 * kRowStride,
    .b_k_bytes = 4 * kTileColumns,
    .pack_a = {{pack_k_contiguous<kTileRows, kRowStride, float>, pack_width_contiguous<kTileRows, kRowStride, float>},
               {pack_k_contiguous<kTileRows, kRowStride, uint16_t>, pack_width_contiguous<kTileRows, kRowStride, uint16_t>},
               {pack_k_contiguous<kTileRows, kRowStride, f16>, pack_width_contiguous<kTileRows, kRowStride, f16>}},
    .pack_b = {{pack_k_contiguous<kTileColumns, kTileColumns, float>, pack_width_contiguous<kTileColumns, kTileColumns, float>},
               {pack_k_contiguous<kTileColumns, kTileColumns, uint16_t>,
                pack_width_contiguous<kTileColumns, kTileColumns, uint16_t>},
               {pack_k_contiguous<kTileColumns, kTileColumns, f16>, pack_width_contiguous<kTileColumns, kTileColumns, f16>}},
    .begin_task = [] {},
    .end_task = [] {},
    .multiply = multiply,
    .exercise = exercise,
};

}  // namespace trireme::cpu::TRIREME_ISA
