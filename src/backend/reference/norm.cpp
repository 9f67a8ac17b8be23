#include <cmath>
#include <vector>

#include "backend/host_fp8.h"
#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

namespace {

// The gain of a normalised value; layernorm1p stores it minus one.
double gain(NormKind kind, const Tensor& weight, int64_t c) { return get(weight, c) + (kind == NormKind::layernorm1p ? 1 : 0); }

template <class Op>
double branches(const Op& op, int64_t n, int64_t c, int64_t C) {
  double value = 0;
  if (op.branch) value += get(op.branch, n * C + c) * dropout_factor(op.dropout, n, c);
  if (op.branch2) value += get(op.branch2, n * C + c) * dropout_factor(op.dropout2, n, c);
  return value;
}

}  // namespace

void ReferenceBackend::run(Stream, const ResidualNormForward& op) {
  const int64_t N = op.out.shape()[0], C = op.out.shape()[1];
  const Tensor& sum = op.sum ? op.sum : op.residual;
  for (int64_t n = 0; n < N; ++n) {
    if (op.branch)
      for (int64_t c = 0; c < C; ++c) set(sum, n * C + c, get(op.residual, n * C + c) + branches(op, n, c, C));
    double mean = 0;
    if (op.kind != NormKind::rmsnorm) {
      for (int64_t c = 0; c < C; ++c) mean += get(sum, n * C + c);
      mean /= static_cast<double>(C);
      set(op.mean, n, mean);
    }
    double variance = 0;
    for (int64_t c = 0; c < C; ++c) variance += std::pow(get(sum, n * C + c) - mean, 2);
    variance /= static_cast<double>(C);
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(op.epsilon));
    set(op.rstd, n, rstd);
    for (int64_t c = 0; c < C; ++c) {
      const double normalised = (get(sum, n * C + c) - mean) * rstd;
      set(op.out.tensor, n * C + c, normalised * gain(op.kind, op.weight, c) + (op.bias ? get(op.bias, c) : 0));
    }
  }
  fill_copies_on_host(op.out);
}

void ReferenceBackend::run(Stream, const ResidualNormBackward& op) {
  const int64_t N = op.sum.shape[0], C = op.sum.shape[1];
  std::vector<double> d_weight(static_cast<size_t>(C)), d_bias(static_cast<size_t>(C));
  for (int64_t n = 0; n < N; ++n) {
    const double mean = op.mean ? get(op.mean, n) : 0, rstd = get(op.rstd, n);
    const auto normalised = [&](int64_t c) { return (get(op.sum, n * C + c) - mean) * rstd; };
    double average = 0, average_times_normalised = 0;  // averages over C of d_out * gain, and of that times the normalised row
    for (int64_t c = 0; c < C; ++c) {
      const double d_out = get(op.d_out, n * C + c), scaled = d_out * gain(op.kind, op.weight, c);
      average += scaled / static_cast<double>(C);
      average_times_normalised += scaled * normalised(c) / static_cast<double>(C);
      d_weight[static_cast<size_t>(c)] += d_out * normalised(c);
      d_bias[static_cast<size_t>(c)] += d_out;
    }
    if (op.kind == NormKind::rmsnorm) average = 0;
    for (int64_t c = 0; c < C; ++c) {
      const double scaled = get(op.d_out, n * C + c) * gain(op.kind, op.weight, c);
      double d_sum = (scaled - average - normalised(c) * average_times_normalised) * rstd;
      if (op.d_residual) d_sum += get(op.d_residual, n * C + c);
      set(op.d_sum.tensor, n * C + c, d_sum);
      const double rounded = get(op.d_sum.tensor, n * C + c);
      if (op.d_branch) set(op.d_branch.tensor, n * C + c, rounded * dropout_factor(op.dropout, n, c));
      if (op.d_branch2) set(op.d_branch2.tensor, n * C + c, rounded * dropout_factor(op.dropout2, n, c));
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    add(op.d_weight, c, d_weight[static_cast<size_t>(c)]);
    if (op.d_bias) add(op.d_bias, c, d_bias[static_cast<size_t>(c)]);
  }
  for (const Operand* written : {&op.d_sum, &op.d_branch, &op.d_branch2}) fill_copies_on_host(*written);
}

void ReferenceBackend::run(Stream, const ResidualAdd& op) {
  const int64_t N = op.sum.shape[0], C = op.sum.shape[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < C; ++c) set(op.sum, n * C + c, get(op.residual, n * C + c) + branches(op, n, c, C));
}

void ReferenceBackend::run(Stream, const DropoutBackward& op) {
  const int64_t N = op.d_sum.shape[0], C = op.d_sum.shape[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < C; ++c)
      set(op.d_branch.tensor, n * C + c, get(op.d_sum, n * C + c) * dropout_factor(op.dropout, n, c));
  fill_copies_on_host(op.d_branch);
}

}  // namespace trireme
