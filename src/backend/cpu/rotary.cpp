#include "backend/cpu/kernels/rotary.h"

#include <algorithm>
#include <cstring>
#include <numbers>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme::cpu {
namespace {

char* first_head(const HeadsView& view) {
  CHECK_EQ(view.packed.shape().rank(), 4);
  CHECK(view.first >= 0 && view.first + view.count <= view.packed.shape()[2]);
  return static_cast<char*>(view.packed.tensor.data) + view.first * view.packed.shape()[3] * size_of(view.packed.dtype());
}

const RotaryKernels& kernels_for(Isa isa) { return TRIREME_KERNELS_FOR(isa, rotary_kernels); }

}  // namespace
}  // namespace trireme::cpu

namespace trireme {

void CpuBackend::run(Stream, const Rotary& op) {
  const Shape& shape = op.heads.packed.shape();  // [B,T,*,D]
  const int64_t N = shape[0] * shape[1];
  CHECK_EQ(op.positions.count(), N);
  CHECK(op.dims >= 0 && op.dims <= shape[3]);
  cpu::RotaryArguments arguments{.heads = cpu::first_head(op.heads),
                                 .row_stride = shape[2] * shape[3],
                                 .count = op.heads.count,
                                 .width = shape[3],
                                 .pairs = div_exact(op.dims, 2),
                                 .backward = op.direction == RotaryDirection::backward,
                                 .positions = op.positions.as<int32_t>()};
  CHECK(arguments.pairs <= cpu::kMostRotaryPairs);
  for (int64_t i = 0; i < arguments.pairs; ++i)
    arguments.turns_per_position[i] = rotary_frequency(op.base, i, op.dims, op.scaling) / (2 * std::numbers::pi);
  const auto rotate = cpu::select_dtype(cpu::kernels_for(isa_).rotate, op.heads.packed.dtype());
  const int64_t rows = cpu::rows_per_task(op.heads.count * op.dims);
  pool_.run(ceil_div(N, rows), [&](int64_t i) { rotate(arguments, i * rows, std::min(N, (i + 1) * rows)); });
}

void CpuBackend::run(Stream, const CopyHeads& op) {
  const Shape &from = op.from.packed.shape(), &to = op.to.packed.shape();  // [B,T,*,D]
  const int64_t B = from[0], T = from[1], D = from[3], element = size_of(op.from.packed.dtype());
  CHECK(op.from.packed.dtype() == op.to.packed.dtype());
  CHECK_EQ(op.from.count, op.to.count);
  CHECK_EQ(to[0], B);
  CHECK_EQ(to[3], D);
  CHECK(op.to_position >= 0 && op.to_position + T <= to[1]);
  const char* source = cpu::first_head(op.from);
  char* target = cpu::first_head(op.to);
  const int64_t rows = cpu::rows_per_task(op.from.count * D);
  pool_.run(ceil_div(B * T, rows), [&](int64_t task) {
    for (int64_t n = task * rows; n < std::min(B * T, (task + 1) * rows); ++n) {
      const int64_t target_row = n / T * to[1] + op.to_position + n % T;
      std::memcpy(target + target_row * to[2] * D * element, source + n * from[2] * D * element,
                  static_cast<size_t>(op.from.count * D * element));
    }
  });
}

}  // namespace trireme
