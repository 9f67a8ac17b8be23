#include "backend/host_fp8.h"

#include <algorithm>
#include <cmath>

#include "tensor/fp8.h"

namespace trireme {
namespace {

float element(const Tensor& x, int64_t i) { return x.dtype == DType::bf16 ? to_float(x.as<bf16>()[i]) : x.as<float>()[i]; }

// The largest |value(i)|; NaN if any value is NaN.
template <class Value>
float largest_size(int64_t count, const Value& value) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float size = std::abs(value(i));
    if (std::isnan(size)) return size;
    largest = std::max(largest, size);
  }
  return largest;
}

void set_scale(float amax, float largest, float& scale, float& inverse) {
  const float wanted = largest / amax;
  if (!(amax > 0) || !std::isfinite(amax) || !std::isfinite(wanted)) return;
  scale = wanted;
  inverse = 1 / wanted;
}

// Fills the FP8 copies of a matrix whose element i is value(i).
template <class Value>
void make_copies(const Operand& x, const Value& value) {
  const Fp8Copy& fp8 = x.fp8;
  const Shape& shape = fp8.values ? fp8.values.shape : fp8.transposed.shape;
  const int64_t N = fp8.values ? shape[0] : shape[1], C = fp8.values ? shape[1] : shape[0];
  CHECK_EQ(x.count(), N * C);
  float& amax = *fp8.amax.as<float>();
  if (const float here = largest_size(N * C, value); *fp8.scaling == Fp8Scaling::current) {
    amax = here;
    set_scale(amax, fp8.largest, *fp8.scale.as<float>(), *fp8.inverse.as<float>());
  } else if (!(here <= amax)) {
    amax = here;
  }
  const float scale = *fp8.scale.as<float>();
  if (fp8.column_sums) std::ranges::fill(fp8.column_sums.span<float>(), 0.0f);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < C; ++c) {
      const float wide = value(n * C + c);
      const uint8_t bits = to_fp8(fp8.dtype(), wide * scale);
      if (fp8.values) static_cast<uint8_t*>(fp8.values.data)[n * C + c] = bits;
      if (fp8.transposed) static_cast<uint8_t*>(fp8.transposed.data)[c * N + n] = bits;
      if (fp8.column_sums) fp8.column_sums.as<float>()[n / Fp8Copy::kSumRows * C + c] += wide;
    }
}

}  // namespace

void quantize_on_host(const Quantize& op) {
  make_copies(op.x, [&](int64_t i) { return element(op.x.tensor, i); });
}

void quantize_norm_on_host(const QuantizeNorm& op) {
  const int64_t C = op.out.shape()[1];
  const float offset = op.kind == NormKind::layernorm1p ? 1.0f : 0.0f;
  CHECK_EQ(op.sum.shape, op.out.shape());
  make_copies(op.out, [&](int64_t i) {
    const int64_t n = i / C, c = i % C;
    const float distance = element(op.sum, i) - (op.mean ? op.mean.as<float>()[n] : 0.0f);
    const float normalised = distance * op.rstd.as<float>()[n];
    const float value = std::fma(normalised, element(op.weight, c) + offset, op.bias ? element(op.bias, c) : 0.0f);
    return op.out.dtype() == DType::bf16 ? to_float(to_bf16(value)) : value;
  });
}

void update_scales_on_host(const UpdateScales& op) {
  const int64_t rows = op.table.shape[0], columns = op.table.shape[1];
  CHECK_EQ(op.amax.count(), rows);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = op.table.as<float>() + r * columns;
    float *first = row + UpdateScales::kHistory, *last = first + op.history;
    std::copy_backward(first, last - 1, last);
    const float amax = op.amax.as<float>()[r];
    *first = std::isfinite(amax) ? amax : 0;
    set_scale(op.choice == AmaxChoice::largest ? *std::max_element(first, last) : *first, op.largest, row[UpdateScales::kScale],
              row[UpdateScales::kInverse]);
  }
}

}  // namespace trireme
