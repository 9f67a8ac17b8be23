// The elementwise ops: activations, fill, copy, sums and random numbers.
#include "backend/cpu/kernels/pointwise.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

#if defined(__SSE2__)
  #include <immintrin.h>
#endif

namespace trireme {

using namespace cpu;

namespace {

// Calls piece(begin, count) for pieces of fixed size of [0, count).
template <class Task>
void run_pieces(ThreadPool& pool, int64_t count, Task&& piece) {
  pool.run(ceil_div(count, kTaskElements), [&](int64_t task) {
    const int64_t begin = task * kTaskElements;
    piece(begin, std::min(kTaskElements, count - begin));
  });
}

// From this size on the start of a buffer has left the cache before its end is written.
constexpr int64_t kPastCacheBytes = int64_t{8} << 20;

// Writes past the cache. A plain store would first read the line from memory. Measured 2.5 times as fast.
template <class T>
void fill_past_cache(T* to, int64_t count, T value) {
  int64_t i = 0;
#if defined(__SSE2__)
  constexpr int64_t kElements = sizeof(__m128i) / sizeof(T);
  alignas(__m128i) T pattern[kElements];
  std::fill_n(pattern, kElements, value);
  const __m128i vector = _mm_load_si128(reinterpret_cast<const __m128i*>(pattern));
  for (; i < count && reinterpret_cast<uintptr_t>(to + i) % sizeof(__m128i) != 0; ++i) to[i] = value;
  for (; i + kElements <= count; i += kElements) _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), vector);
  _mm_sfence();  // orders these stores before those that signal the end of the task
#endif
  std::fill_n(to + i, count - i, value);
}

template <class T>
void fill(ThreadPool& pool, const Tensor& out, T value) {
  run_pieces(pool, out.count(), [&](int64_t begin, int64_t count) {
    if (out.bytes() >= kPastCacheBytes)
      fill_past_cache(out.as<T>() + begin, count, value);
    else
      std::fill_n(out.as<T>() + begin, count, value);
  });
}

}  // namespace

void CpuBackend::run(Stream stream, const ActivationForward& op) {
  CHECK_EQ(op.pre.shape, op.out.shape());
  if (op.activation == Activation::none) return run(stream, Copy{.from = op.pre, .to = op.out.tensor});
  const auto& kernels = TRIREME_KERNELS_FOR(isa_, pointwise_kernels);
  const auto kernel = select_dtype(op.activation == Activation::gelu_tanh ? kernels.gelu_tanh : kernels.gelu_erf, op.out.dtype());
  run_pieces(pool_, op.out.count(),
             [&](int64_t begin, int64_t count) { kernel(at(op.pre, begin), at(op.out.tensor, begin), count); });
}

void CpuBackend::run(Stream, const SwigluForward& op) {
  const int64_t N = op.out.shape()[0], F = op.out.shape()[1];
  CHECK_EQ(op.gate_up.shape, Shape({N, 2 * F}));
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, pointwise_kernels).swiglu_forward, op.out.dtype());
  const int64_t rows = rows_per_task(2 * F);
  pool_.run(ceil_div(N, rows), [&](int64_t task) {
    for (int64_t n = task * rows; n < std::min(N, (task + 1) * rows); ++n)
      kernel(at(op.gate_up, n * 2 * F), at(op.gate_up, n * 2 * F + F), at(op.out.tensor, n * F), F);
  });
}

void CpuBackend::run(Stream, const SwigluBackward& op) {
  const int64_t N = op.d_out.shape[0], F = op.d_out.shape[1];
  CHECK_EQ(op.gate_up.shape, Shape({N, 2 * F}));
  CHECK_EQ(op.d_gate_up.shape(), op.gate_up.shape);
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, pointwise_kernels).swiglu_backward, op.d_out.dtype);
  const int64_t rows = rows_per_task(2 * F);
  pool_.run(ceil_div(N, rows), [&](int64_t task) {
    for (int64_t n = task * rows; n < std::min(N, (task + 1) * rows); ++n) {
      const int64_t gate = n * 2 * F, up = gate + F;
      kernel(at(op.gate_up, gate), at(op.gate_up, up), at(op.d_out, n * F), at(op.d_gate_up.tensor, gate),
             at(op.d_gate_up.tensor, up), F);
    }
  });
}

void CpuBackend::run(Stream, const Fill& op) {
  switch (op.out.dtype) {
    case DType::f32:
      return fill(pool_, op.out, static_cast<float>(op.value));
    case DType::bf16:
      return fill(pool_, op.out, to_bf16(static_cast<float>(op.value)));
    case DType::f16:
      return fill(pool_, op.out, to_f16(static_cast<float>(op.value)));
    case DType::f64:
      return fill(pool_, op.out, op.value);
    default:
      CHECK_NEVER("fill is for floating point");
  }
}

void CpuBackend::run(Stream, const Copy& op) {
  CHECK_EQ(op.from.count(), op.to.count());
  const auto& kernels = TRIREME_KERNELS_FOR(isa_, pointwise_kernels);
  run_pieces(pool_, op.to.count(), [&](int64_t begin, int64_t count) {
    if (op.from.dtype == op.to.dtype)
      std::memcpy(at(op.to, begin), at(op.from, begin), static_cast<size_t>(count * size_of(op.to.dtype)));
    else if (op.from.dtype == DType::f32)
      select_dtype(kernels.from_f32, op.to.dtype)(op.from.as<float>() + begin, at(op.to, begin), count);
    else if (op.to.dtype == DType::f32)
      select_dtype(kernels.to_f32, op.from.dtype)(at(op.from, begin), op.to.as<float>() + begin, count);
    else
      CHECK_NEVER("copy converts from or to f32 only");
  });
}

void CpuBackend::run(Stream, const Accumulate& op) {
  CHECK_EQ(op.from.count(), op.to.count());
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, pointwise_kernels).accumulate, op.from.dtype);
  run_pieces(pool_, op.to.count(),
             [&](int64_t begin, int64_t count) { kernel(at(op.from, begin), op.to.as<float>() + begin, count); });
}

// In double and without vectors, so that a model's initial weights are bit-equal on every machine.
void CpuBackend::run(Stream, const RandomNormal& op) {
  float* out = op.out.as<float>();
  run_pieces(pool_, op.out.count(), [&](int64_t begin, int64_t count) {
    const int64_t end = begin + count;
    for (int64_t i = begin; i < end;) {
      const int64_t index = op.first + i;
      const auto block = static_cast<uint64_t>(index / 4);
      const auto draws = normals(philox(op.seed, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), op.site, 0}));
      for (int64_t lane = index % 4; lane < 4 && i < end; ++lane, ++i)
        out[i] = static_cast<float>(op.mean + op.deviation * draws[static_cast<size_t>(lane)]);
    }
  });
}

}  // namespace trireme
