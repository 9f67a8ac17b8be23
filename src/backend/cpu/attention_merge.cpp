#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme {
namespace {

float widen(float value) { return value; }
float widen(bf16 value) { return to_float(value); }
float widen(f16 value) { return to_float(value); }
void narrow_to(float& to, float value) { to = value; }
void narrow_to(bf16& to, float value) { to = to_bf16(value); }
void narrow_to(f16& to, float value) { to = to_f16(value); }

// The heads of position t of batch b.
template <class T>
void merge_position(const MergeAttention& op, int64_t b, int64_t t) {
  const Shape& shape = op.out.shape;  // [B,T,H,D]
  const int64_t H = shape[2], D = shape[3];
  for (int64_t head = 0; head < H; ++head) {
    const int64_t statistic = (b * H + head) * shape[1] + t, row = ((b * shape[1] + t) * H + head) * D;
    float& lse = op.lse.as<float>()[statistic];
    const float part_lse = op.part_lse.as<float>()[statistic], highest = std::max(lse, part_lse);
    const float joined = highest + std::log(std::exp(lse - highest) + std::exp(part_lse - highest));
    const float weight = std::exp(lse - joined), part_weight = std::exp(part_lse - joined);
    T* out = op.out.as<T>() + row;
    const T* part = op.part_out.as<T>() + row;
    for (int64_t d = 0; d < D; ++d) narrow_to(out[d], weight * widen(out[d]) + part_weight * widen(part[d]));
    lse = joined;
  }
}

}  // namespace

void CpuBackend::run(Stream, const MergeAttention& op) {
  const Shape& shape = op.out.shape;
  CHECK_EQ(op.part_out.shape, shape);
  CHECK_EQ(op.lse.shape, Shape({shape[0], shape[2], shape[1]}));
  CHECK_EQ(op.part_lse.shape, op.lse.shape);
  const auto merge = op.out.dtype == DType::f32    ? merge_position<float>
                     : op.out.dtype == DType::bf16 ? merge_position<bf16>
                                                   : merge_position<f16>;
  const int64_t N = shape[0] * shape[1], rows = cpu::rows_per_task(shape[2] * shape[3]);
  pool_.run(ceil_div(N, rows), [&](int64_t task) {
    for (int64_t n = task * rows; n < std::min(N, (task + 1) * rows); ++n) merge(op, n / shape[1], n % shape[1]);
  });
}

}  // namespace trireme
