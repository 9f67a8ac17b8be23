#include "backend/cpu/kernels/norm.h"

#include "backend/cpu/kernels/pointwise_chunks.h"
#include "backend/cpu/kernels/pointwise_dropout.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
const T* row_of(const void* tensor, int64_t n, int64_t width) {
  return tensor == nullptr ? nullptr : static_cast<const T*>(tensor) + n * width;
}
template <class T>
T* row_of(void* tensor, int64_t n, int64_t width) {
  return tensor == nullptr ? nullptr : static_cast<T*>(tensor) + n * width;
}

// ------------------------------------------------------------------------------------------------------ adds and dropout

template <class T>
void add_row(const ResidualArguments& op, int64_t n) {
  const T* residual = row_of<T>(op.residual, n, op.width);
  const T* branch = row_of<T>(op.branch, n, op.width);
  const T* branch2 = row_of<T>(op.branch2, n, op.width);
  T* sum = row_of<T>(op.sum, n, op.width);
  RowDropout dropout(op.dropout, n), dropout2(op.dropout2, n);
  for_each_chunk(op.width, [&](int64_t c, auto lanes) {
    f32x16 total = load(residual + c, lanes) + dropout.apply(load(branch + c, lanes), c);
    if (branch2 != nullptr) total += dropout2.apply(load(branch2 + c, lanes), c);
    store(sum + c, total, lanes);
  });
}

template <class T>
void residual_add(const ResidualArguments& op, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) add_row<T>(op, n);
}

template <class T>
void dropout_backward(const DropoutBackwardArguments& op, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    const T* d_sum = row_of<T>(op.d_sum, n, op.width);
    T* d_branch = row_of<T>(op.d_branch, n, op.width);
    RowDropout dropout(op.dropout, n);
    for_each_chunk(op.width,
                   [&](int64_t c, auto lanes) { store(d_branch + c, dropout.apply(load(d_sum + c, lanes), c), lanes); });
  }
}

// ------------------------------------------------------------------------------------------------------------------ norm

// The loops over a row are separate, but a row stays in L1, so memory is read and written once.
template <class T>
void forward(const NormForwardArguments& op, int64_t begin, int64_t end) {
  const int64_t width = op.residual.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const T* weight = static_cast<const T*>(op.weight);
  const T* bias = static_cast<const T*>(op.bias);
  for (int64_t n = begin; n < end; ++n) {
    const bool add = op.residual.branch != nullptr;
    if (add) add_row<T>(op.residual, n);
    const T* sum = row_of<T>(add ? op.residual.sum : op.residual.residual, n, width);

    float mean = 0;
    if (op.norm.centred) {
      f32x16 total{};
      for_each_chunk(width, [&](int64_t c, auto lanes) { total += load(sum + c, lanes); });
      mean = reduce_sum(total) * inverse_width;
      op.mean[n] = mean;
    }
    f32x16 squares{};
    for_each_chunk(width, [&](int64_t c, auto lanes) {
      const f32x16 centred = only(load(sum + c, lanes) - mean, lanes);
      squares += centred * centred;
    });
    const float rstd = 1.0f / __builtin_sqrtf(reduce_sum(squares) * inverse_width + op.epsilon);
    op.rstd[n] = rstd;

    T* out = row_of<T>(op.out, n, width);
    for_each_chunk(width, [&](int64_t c, auto lanes) {
      const f32x16 normalised = (load(sum + c, lanes) - mean) * rstd;
      f32x16 result = normalised * (load(weight + c, lanes) + op.norm.weight_offset);
      if (bias != nullptr) result += load(bias + c, lanes);
      store(out + c, result, lanes);
    });
  }
}

// With x the normalised row and g = d_out * weight, the gradient of the norm is rstd * (g - average(g) - x * average(g x));
// without centring the term average(g) is absent.
template <class T>
void backward(const NormBackwardArguments& op, int64_t begin, int64_t end, float* d_weight, float* d_bias) {
  const int64_t width = op.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const T* weight = static_cast<const T*>(op.weight);
  for_each_chunk(width, [&](int64_t c, auto lanes) {
    store(d_weight + c, f32x16{}, lanes);
    store(d_bias + c, f32x16{}, lanes);
  });
  for (int64_t n = begin; n < end; ++n) {
    const T* sum = row_of<T>(op.sum, n, width);
    const T* d_out = row_of<T>(op.d_out, n, width);
    const float mean = op.norm.centred ? op.mean[n] : 0, rstd = op.rstd[n];

    f32x16 total{}, total_times_normalised{};
    for_each_chunk(width, [&](int64_t c, auto lanes) {
      const f32x16 normalised = (load(sum + c, lanes) - mean) * rstd;
      const f32x16 gradient = load(d_out + c, lanes);
      const f32x16 scaled = gradient * (load(weight + c, lanes) + op.norm.weight_offset);
      total += scaled;
      total_times_normalised += scaled * normalised;
      store(d_weight + c, load(d_weight + c, lanes) + gradient * normalised, lanes);
      store(d_bias + c, load(d_bias + c, lanes) + gradient, lanes);
    });
    const float average = op.norm.centred ? reduce_sum(total) * inverse_width : 0;
    const float average_times_normalised = reduce_sum(total_times_normalised) * inverse_width;

    const T* d_residual = row_of<T>(op.d_residual, n, width);
    T* d_sum = row_of<T>(op.d_sum, n, width);
    T* d_branch = row_of<T>(op.d_branch, n, width);
    T* d_branch2 = row_of<T>(op.d_branch2, n, width);
    RowDropout dropout(op.dropout, n), dropout2(op.dropout2, n);
    for_each_chunk(width, [&](int64_t c, auto lanes) {
      const f32x16 normalised = (load(sum + c, lanes) - mean) * rstd;
      const f32x16 scaled = load(d_out + c, lanes) * (load(weight + c, lanes) + op.norm.weight_offset);
      f32x16 gradient = (scaled - average - normalised * average_times_normalised) * rstd;
      if (d_residual != nullptr) gradient += load(d_residual + c, lanes);
      gradient = rounded_to(d_sum, gradient);  // the branches get the gradient as stored, that is rounded
      store(d_sum + c, gradient, lanes);
      if (d_branch != nullptr) store(d_branch + c, dropout.apply(gradient, c), lanes);
      if (d_branch2 != nullptr) store(d_branch2 + c, dropout2.apply(gradient, c), lanes);
    });
  }
}

}  // namespace

const NormKernels norm_kernels = {
    .residual_add = {residual_add<float>, residual_add<uint16_t>, residual_add<f16>},
    .dropout_backward = {dropout_backward<float>, dropout_backward<uint16_t>, dropout_backward<f16>},
    .forward = {forward<float>, forward<uint16_t>, forward<f16>},
    .backward = {backward<float>, backward<uint16_t>, backward<f16>},
};

}  // namespace trireme::cpu::TRIREME_ISA
