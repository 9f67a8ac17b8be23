// GEMMs on all threads. Packs both operands into panels, splits the result into tasks and applies the epilogue to each tile of
// sums while it is in cache. Every element is summed by one task in an order that depends only on K, so the result does not
// depend on the number of threads.
#pragma once

#include <cstddef>
#include <span>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/gemm_linear.h"
#include "base/thread_pool.h"

namespace trireme::cpu {

// A matrix [width, K]; `stride` is the distance in elements between contiguous runs.
struct GemmOperand {
  const void* data = nullptr;
  Element element = Element::f32;
  Layout layout = Layout::k_contiguous;
  int64_t stride = 0;
};

// sums = a b^T, followed by the epilogue `finish`.    a [M,K], b [N,K], sums [M,N].
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;
  FinishOperands finish;
  float* a_sums = nullptr;  // [M], optional: a_sums[m] += sum over k of a[m, k]; only for width_contiguous a
};

int64_t gemm_scratch_bytes(int threads, Isa isa, const Gemm& gemm);
void run_gemm(ThreadPool& pool, Isa isa, const Gemm& gemm, std::span<std::byte> scratch);

// The inner loops of GEMMs with this element type.
const GemmKernel& gemm_kernel(Isa isa, Element element);

}  // namespace trireme::cpu
