#include <cmath>

#include "backend/host_fp8.h"
#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588, kCubic = 0.044715;

double activate(Activation kind, double z) {
  switch (kind) {
    case Activation::none:
      return z;
    case Activation::gelu_tanh:
      return 0.5 * z * (1 + std::tanh(kSqrt2OverPi * (z + kCubic * z * z * z)));
    case Activation::gelu_erf:
      return 0.5 * z * (1 + std::erf(z * std::sqrt(0.5)));
  }
  return z;
}

double activation_slope(Activation kind, double z) {
  switch (kind) {
    case Activation::none:
      return 1;
    case Activation::gelu_tanh: {
      const double t = std::tanh(kSqrt2OverPi * (z + kCubic * z * z * z));
      return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kCubic * z * z);
    }
    case Activation::gelu_erf:
      return 0.5 * (1 + std::erf(z * std::sqrt(0.5))) + z * std::exp(-0.5 * z * z) * 0.5 * kSqrt2OverPi;
  }
  return 1;
}

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

}  // namespace

void ReferenceBackend::run(Stream, const LinearForward& op) {
  const int64_t N = op.x.shape()[0], I = op.x.shape()[1], O = op.weight.shape()[0];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o) {
      double sum = op.bias ? get(op.bias, o) : 0;
      for (int64_t i = 0; i < I; ++i) sum += by_rows(op.x, n, i) * by_rows(op.weight, o, i);
      if (op.pre) {
        set(op.pre, n * O + o, sum);
        sum = activate(op.activation, get(op.pre, n * O + o));
      }
      set(op.out.tensor, n * O + o, sum);
    }
  fill_copies_on_host(op.out);
}

void ReferenceBackend::run(Stream stream, const LinearInputGrad& op) {
  if (op.x) run(stream, ActivationForward{.activation = op.activation, .pre = op.pre, .out = op.x});
  const int64_t N = op.d_out.shape()[0], O = op.d_out.shape()[1], I = op.weight.shape()[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < I; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < O; ++o) sum += by_rows(op.d_out, n, o) * by_columns(op.weight, o, i);
      if (op.pre) sum *= activation_slope(op.activation, get(op.pre, n * I + i));
      set(op.d_x.tensor, n * I + i, sum);
    }
  fill_copies_on_host(op.d_x);
}

void ReferenceBackend::run(Stream, const LinearWeightGrad& op) {
  const int64_t N = op.x.shape()[0], I = op.x.shape()[1], O = op.d_out.shape()[1];
  for (int64_t o = 0; o < O; ++o) {
    for (int64_t i = 0; i < I; ++i) {
      double sum = 0;
      for (int64_t n = 0; n < N; ++n) sum += by_columns(op.d_out, n, o) * by_columns(op.x, n, i);
      op.sum == GradSum::adds ? add(op.d_weight, o * I + i, sum) : set(op.d_weight, o * I + i, sum);
    }
    if (!op.d_bias) continue;
    // With FP8 copies d_bias sums the values before rounding, of which column_sums has partial sums.
    const Tensor& summed = op.d_out.fp8 ? op.d_out.fp8.column_sums : op.d_out.tensor;
    double sum = 0;
    for (int64_t n = 0; n < summed.shape[0]; ++n) sum += get(summed, n * O + o);
    add(op.d_bias, o, sum);
  }
}

void ReferenceBackend::run(Stream, const ActivationForward& op) {
  for (int64_t i = 0; i < op.pre.count(); ++i) set(op.out.tensor, i, activate(op.activation, get(op.pre, i)));
  fill_copies_on_host(op.out);
}

void ReferenceBackend::run(Stream, const SwigluForward& op) {
  const int64_t N = op.out.shape()[0], F = op.out.shape()[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t f = 0; f < F; ++f) {
      const double gate = get(op.gate_up, n * 2 * F + f), up = get(op.gate_up, n * 2 * F + F + f);
      set(op.out.tensor, n * F + f, gate * sigmoid(gate) * up);
    }
  fill_copies_on_host(op.out);
}

void ReferenceBackend::run(Stream, const SwigluBackward& op) {
  const int64_t N = op.d_out.shape[0], F = op.d_out.shape[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t f = 0; f < F; ++f) {
      const double gate = get(op.gate_up, n * 2 * F + f), up = get(op.gate_up, n * 2 * F + F + f);
      const double d_out = get(op.d_out, n * F + f), s = sigmoid(gate);
      set(op.d_gate_up.tensor, n * 2 * F + f, d_out * up * s * (1 + gate * (1 - s)));
      set(op.d_gate_up.tensor, n * 2 * F + F + f, d_out * gate * s);
    }
  fill_copies_on_host(op.d_gate_up);
}

}  // namespace trireme
