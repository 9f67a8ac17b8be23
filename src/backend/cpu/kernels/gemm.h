// Between the product driver (backend/cpu/gemm.cpp) and its inner loops: one table of functions and sizes per instruction set.
//
// A product is sums[M,N] = A[M,K] B[N,K]^T. Both operands are first packed into panels: a panel holds tile_rows rows of A, or
// tile_columns rows of B, for one block of K, in the order the inner loop reads them. One A panel and one B panel make a tile of
// sums, f32, [tile_rows, tile_columns], that stays in registers over the whole block.
#pragma once

#include <cstdint>

namespace trireme::cpu {

enum class Element : uint8_t { f32, bf16 };

// How an operand [width, K] lies in memory: each of its rows contiguous, or each of its columns.
enum class Layout : uint8_t { k_contiguous, width_contiguous };

// Packs one block of K for all panels of `width` rows, one panel after the other. Element (w, k) is at from[w * stride + k] or
// from[k * stride + w], by layout. The last panel is filled up with zeros, and so is K up to a multiple of k_step.
// row_sums, for width_contiguous A only and else null: row_sums[w] += sum over k of element (w, k).
using PackPanels = void (*)(const void* from, int64_t stride, int64_t width, int64_t k, void* to, float* row_sums);

// Memory that is needed after a product and is brought nearer during it.
struct Ahead {
  const void* from = nullptr;
  int64_t bytes = 0;
};

// Work on the rows of an earlier tile, for the units that a product leaves idle: the kernel calls `run` on all of them, a few at
// a time, when it sees fit.
struct SideWork {
  int64_t rows = 0;
  void (*run)(const void* state, int64_t first, int64_t count) = nullptr;
  const void* state = nullptr;
};

struct GemmKernel {
  int64_t tile_rows, tile_columns;  // tile_columns is a multiple of 16
  int64_t k_step;                   // panels hold a multiple of this many k
  int64_t k_block;                  // k in one panel at most; longer ones are multiplied block by block
  int64_t task_rows, task_columns;  // of the sums of one task at most
  bool task_packs_a;                // each task packs its own A panels, into its core's cache, instead of all threads together
  int64_t task_a_bytes;          // of the A panels of one block and task at most: with the sums they fit the second level cache
  int64_t a_k_bytes, b_k_bytes;  // one k of a panel
  PackPanels pack_a[2][2];       // [Element][Layout]; null where the kernel does not take that element
  PackPanels pack_b[2][2];

  void (*begin_task)();  // around the calls of multiply that one thread makes for a task
  void (*end_task)();

  // For each of `panels` consecutive A panels: its tile of sums = or += A panel * B panel. Tiles are contiguous in memory.
  void (*multiply)(int64_t panels, int64_t k, const void* a, const void* b, float* sums, bool first, Ahead ahead,
                   const SideWork& side);

  // Multiply-adds on registers alone, to measure what this core can do at most; returns the number of floating point operations.
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
