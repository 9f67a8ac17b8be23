#include "backend/cpu/kernels/loss.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme {

using namespace cpu;

namespace {

template <class Op>
LogitsRow logits_row(const Op& op, int64_t n) {
  const int64_t V = op.logits.shape[1];
  return {
      .width = V, .vocabulary = op.vocabulary, .logits = static_cast<char*>(op.logits.data) + n * V * size_of(op.logits.dtype)};
}

template <class Op>
void check_shapes(const Op& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  CHECK(op.vocabulary >= 0 && op.vocabulary <= V);
  CHECK_EQ(op.targets.count(), N);
}

// The column of a target; -1 if it is in another part of the vocabulary or masked.
template <class Op>
int64_t column_of(const Op& op, int32_t target) {
  const int64_t column = target - op.first_column;
  return target >= 0 && column >= 0 && column < op.vocabulary ? column : -1;
}

float element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype) {
    case DType::bf16:
      return to_float(tensor.as<bf16>()[i]);
    case DType::f16:
      return to_float(tensor.as<f16>()[i]);
    default:
      return tensor.as<float>()[i];
  }
}

}  // namespace

void CpuBackend::run(Stream, const CrossEntropyStats& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  check_shapes(op);
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, loss_kernels).stats, op.logits.dtype);
  const int32_t* targets = op.targets.as<int32_t>();
  float *row_max = op.row_max.as<float>(), *row_sum = op.row_sum.as<float>(), *target_logit = op.target_logit.as<float>();
  pool_.run(N, [&](int64_t n) {
    kernel(logits_row(op, n), row_max + n, row_sum + n);
    const int64_t column = column_of(op, targets[n]);
    target_logit[n] = column < 0 ? 0 : element(op.logits, n * V + column);
  });
}

void CpuBackend::run(Stream, const RescaleSums& op) {
  const std::span<const float> part_max = op.part_max.span<float>(), row_max = op.row_max.span<float>();
  const std::span<float> row_sum = op.row_sum.span<float>();
  for (size_t n = 0; n < row_sum.size(); ++n) row_sum[n] *= std::exp(part_max[n] - row_max[n]);
}

void CpuBackend::run(Stream, const CrossEntropyGrad& op) {
  const int64_t N = op.logits.shape[0];
  check_shapes(op);
  const int32_t* targets = op.targets.as<int32_t>();
  const float *row_max = op.row_max.as<float>(), *row_sum = op.row_sum.as<float>(), *target_logit = op.target_logit.as<float>();
  float* losses = op.losses.as<float>();
  double* scalars = op.scalars.as<double>();
  double loss_sum = 0;
  for (int64_t n = 0; n < N; ++n) {
    const double log_sum = std::log(static_cast<double>(row_sum[n]));
    losses[n] =
        targets[n] < 0 ? 0 : static_cast<float>(log_sum + static_cast<double>(row_max[n]) - static_cast<double>(target_logit[n]));
    loss_sum += static_cast<double>(losses[n]);
  }
  scalars[static_cast<int64_t>(StepScalar::loss_sum)] += loss_sum;
  if (op.write_grad == WriteGrad::no) return;

  const auto scale = static_cast<float>(scalars[static_cast<int64_t>(StepScalar::inverse_targets)]);
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, loss_kernels).grad, op.logits.dtype);
  pool_.run(N, [&](int64_t n) {
    const LogitsRow row = logits_row(op, n);
    if (targets[n] < 0)
      std::memset(row.logits, 0, static_cast<size_t>(row.width * size_of(op.logits.dtype)));
    else
      kernel(row, column_of(op, targets[n]), row_max[n], row_sum[n], scale);
  });
}

void CpuBackend::run(Stream stream, const CrossEntropy& op) {
  run(stream, op.stats());
  run(stream, op.grad());
}

}  // namespace trireme
