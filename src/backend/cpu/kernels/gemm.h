// The interface between the GEMM driver (backend/cpu/gemm.cpp) and its inner loops: one table of functions and sizes per
// instruction set.
//
// A GEMM computes sums[M,N] = A[M,K] B[N,K]^T. Both operands are first packed into panels. A panel holds tile_rows rows of A, or
// tile_columns rows of B, for one block of K, in the order in which the inner loop reads them. One A panel and one B panel give a
// tile of sums, f32 [tile_rows, tile_columns], which stays in registers over the whole block.
#pragma once

#include <cstdint>

namespace trireme::cpu {

enum class Element : uint8_t { f32, bf16, f16 };
constexpr int kElements = 3;

// The memory layout of an operand [width, K]: its rows are contiguous, or its columns.
enum class Layout : uint8_t { k_contiguous, width_contiguous };

// Packs one block of K for all panels of `width` rows, panel by panel. Element (w, k) is at from[w * stride + k] or from[k *
// stride + w], depending on the layout. The last panel is padded with zeros, and so is K up to a multiple of k_step.
// row_sums[w] += sum over k of element (w, k); only for width_contiguous A, otherwise null.
using PackPanels = void (*)(const void* from, int64_t stride, int64_t width, int64_t k, void* to, float* row_sums);

// Memory that is needed after a GEMM call and is prefetched during it.
struct Ahead {
  const void* from = nullptr;
  int64_t bytes = 0;
};

// The epilogue of an earlier tile, for units that the GEMM leaves idle. The kernel calls `run` on all rows, a few at a time,
// between its own instructions.
struct SideWork {
  int64_t rows = 0;
  void (*run)(const void* state, int64_t first, int64_t count) = nullptr;
  const void* state = nullptr;
};

struct GemmKernel {
  int64_t tile_rows, tile_columns;  // tile_columns is a multiple of 16
  int64_t k_step;                   // panels hold a multiple of this many k
  int64_t k_block;                  // most k per panel; a longer K is multiplied block by block
  int64_t task_rows, task_columns;  // most sums per task
  bool task_packs_a;                // each task packs its own A panels into its core's cache, instead of all threads together
  int64_t task_a_bytes;             // most bytes of A panels per block and task: with the sums they fit into L2
  int64_t a_k_bytes, b_k_bytes;     // bytes per k of a panel
  PackPanels pack_a[kElements][2];  // [Element][Layout]; null if the kernel does not support the element
  PackPanels pack_b[kElements][2];

  void (*begin_task)();  // called before and after the multiply calls of one task, on its thread
  void (*end_task)();

  // For each of `panels` consecutive A panels: its tile of sums = or += A panel * B panel. Tiles are contiguous in memory.
  void (*multiply)(int64_t panels, int64_t k, const void* a, const void* b, float* sums, bool first, Ahead ahead,
                   const SideWork& side);

  // Multiply-adds in registers only, to measure the peak of this core. Returns the number of floating-point operations.
  double (*exercise)(int64_t rounds);
};

namespace baseline {
extern const GemmKernel kGemmKernel;
}
namespace avx2 {
extern const GemmKernel kGemmKernel;
}
namespace avx512 {
extern const GemmKernel kGemmKernel;
}
namespace avx512_bf16 {
extern const GemmKernel kGemmKernel;
}
namespace amx {
extern const GemmKernel kGemmKernel;
}
namespace amx_emulated {
extern const GemmKernel kGemmKernel;
}

}  // namespace trireme::cpu
