// Selects kernels by instruction set, then by dtype, for the files that split ops into tasks.
#pragma once

#include <algorithm>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels/pointwise_arguments.h"
#include "backend/ops.h"
#include "base/philox.h"

namespace trireme::cpu {

// The instance of a table for `isa`; processors other than x86-64 have only the baseline.
#if defined(__x86_64__)
  #define TRIREME_KERNELS_FOR(isa, name) \
    (::trireme::cpu::select_kernels(isa, baseline::name, avx2::name, avx512::name, avx512_bf16::name))
#else
  #define TRIREME_KERNELS_FOR(isa, name) \
    (::trireme::cpu::select_kernels(isa, baseline::name, baseline::name, baseline::name, baseline::name))
#endif

template <class Table>
const Table& select_kernels(Isa isa, const Table& baseline, const Table& avx2, const Table& avx512, const Table& avx512_bf16) {
  switch (vector_isa(isa)) {
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx512;
    case Isa::avx512_bf16:
      return avx512_bf16;
    default:
      return baseline;
  }
}

template <class Kernel>
Kernel select_dtype(const PerDType<Kernel>& kernels, DType dtype) {
  CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16);
  return dtype == DType::f32 ? kernels.f32 : dtype == DType::bf16 ? kernels.bf16 : kernels.f16;
}

inline char* at(const Tensor& tensor, int64_t element) {
  return static_cast<char*>(tensor.data) + element * size_of(tensor.dtype);
}

inline DropoutArguments dropout_arguments(const Dropout& dropout, int64_t rows) {
  if (!dropout.active()) return {};
  CHECK_EQ(dropout.row_keys.count(), rows);
  return {.active = true,
          .site = dropout.site,
          .threshold = dropout_threshold(dropout.probability),
          .scale = static_cast<float>(1 / (1 - static_cast<double>(dropout.probability))),
          .seed = dropout.seed,
          .row_keys = dropout.row_keys.as<int64_t>()};
}

// Tasks are split by size, never by the number of threads. About 16 Ki elements per task make the cost of starting one negligible
// and keep a few threads evenly loaded.
inline constexpr int64_t kTaskElements = 16 * 1024;

inline int64_t rows_per_task(int64_t width) { return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, width)); }

}  // namespace trireme::cpu
