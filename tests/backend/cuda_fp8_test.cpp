// Products of FP8 copies on a GPU against the same copies multiplied on the host, and the copies that are made together with an
// activation. Runs where a GPU with FP8 is.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/gpu.h"
#include "support/host_tensors.h"
#include "support/skip.h"
#include "tensor/fp8.h"

namespace trireme {
namespace {

constexpr int64_t N = 272, I = 144, O = 208;  // multiples of 16 and of nothing larger

constexpr Fp8Scaling kDelayed = Fp8Scaling::delayed;

// A matrix on the host in double, and how large the numbers are that it was summed from.
struct Matrix {
  std::vector<double> values, sizes;
};

class CudaFp8 : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    backend_ = make_cuda_backend();
    if (!backend_->has_fp8()) SKIP_FOR(gpu) << "this GPU has no FP8";
  }

  Tensor take(const Shape& shape, DType dtype) {
    Tensor device{.dtype = dtype, .shape = shape, .device = Device::cuda};
    memory_.push_back(backend_->allocate(device.bytes()));
    device.data = memory_.back().block.get();
    return device;
  }
  Tensor upload(const Tensor& host) {
    const Tensor device = take(host.shape, host.dtype);
    backend_->upload(kCompute, host.data, device);
    return device;
  }
  Tensor uniform(const Shape& shape, DType dtype, double size = 1) { return upload(host_.uniform(shape, dtype, -size, size)); }

  // Room for the copies of [rows,columns], scaled by what is in it.
  Operand with_copies(const Tensor& tensor, DType fp8) {
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    Operand operand = tensor;
    operand.fp8 = {.values = take({rows, columns}, fp8),
                   .transposed = take({columns, rows}, fp8),
                   .column_sums = take({ceil_div(rows, Fp8Copy::kSumRows), columns}, DType::f32),
                   .scale = take({1}, DType::f32),
                   .inverse = take({1}, DType::f32),
                   .amax = take({1}, DType::f32),
                   .largest = largest_of(fp8),
                   .scaling = &scaling_};
    return operand;
  }
  Operand quantized(const Shape& shape, DType fp8) {
    const Operand operand = with_copies(uniform(shape, DType::bf16), fp8);
    run(Quantize{.x = operand});
    return operand;
  }

  template <class Op>
  void run(const Op& op) {
    const Memory scratch = backend_->allocate(backend_->scratch_bytes(op));
    backend_->set_scratch(kCompute, {scratch.block.get(), DType::u8, {backend_->scratch_bytes(op)}, Device::cuda});
    backend_->run(kCompute, op);
    backend_->synchronize(backend_->record(kCompute, "done"));
  }

  std::vector<uint8_t> bytes(const Tensor& device) {
    std::vector<uint8_t> all(static_cast<size_t>(device.bytes()));
    backend_->download(kCompute, device, all.data());
    backend_->synchronize(backend_->record(kCompute, "downloaded"));
    return all;
  }
  std::vector<double> doubles(const Tensor& device) {
    const std::vector<uint8_t> all = bytes(device);
    std::vector<double> result;
    for (int64_t i = 0; i < device.count(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (device.dtype == DType::f32)
        result.push_back(reinterpret_cast<const float*>(all.data())[at]);
      else if (device.dtype == DType::bf16)
        result.push_back(to_float(reinterpret_cast<const bf16*>(all.data())[at]));
      else
        result.push_back(from_fp8(device.dtype, all[at]));
    }
    return result;
  }
  // What the copies of an operand stand for.
  std::vector<double> dequantized(const Operand& operand) {
    std::vector<double> result = doubles(operand.fp8.values);
    for (double& value : result) value *= doubles(operand.fp8.inverse)[0];
    return result;
  }

  // sum over k of a(m, k) b(n, k)
  static Matrix product(int64_t rows, int64_t columns, int64_t sum, const std::function<double(int64_t, int64_t)>& a,
                        const std::function<double(int64_t, int64_t)>& b) {
    Matrix result;
    for (int64_t m = 0; m < rows; ++m)
      for (int64_t n = 0; n < columns; ++n) {
        double value = 0, size = 0;
        for (int64_t k = 0; k < sum; ++k) value += a(m, k) * b(n, k), size += std::abs(a(m, k) * b(n, k));
        result.values.push_back(value);
        result.sizes.push_back(size);
      }
    return result;
  }

  // Fast sums keep 13 bits of the largest of the products that are added at once, of which a few dozen groups follow each other:
  // 2^-12 of the sum of all sizes is more than that, and far less than what one wrong operand does.
  void expect_near(const Tensor& got, const Matrix& expected, double relative) {
    const std::vector<double> values = doubles(got);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], expected.values[i], relative * std::abs(expected.values[i]) + 0x1p-12 * expected.sizes[i]) << i;
  }

  Fp8Scaling scaling_ = Fp8Scaling::current;
  HostTensors host_;
  std::unique_ptr<Backend> backend_;
  std::vector<Memory> memory_;
};

TEST_F(CudaFp8, ForwardMultipliesTheCopies) {
  const Operand x = quantized({N, I}, DType::f8e4m3), weight = quantized({O, I}, DType::f8e4m3);
  const Tensor bias = uniform({O}, DType::bf16), out = take({N, O}, DType::bf16);
  const auto x_values = dequantized(x), weights = dequantized(weight), biases = doubles(bias);
  Matrix expected = product(
      N, O, I, [&](int64_t n, int64_t i) { return x_values[static_cast<size_t>(n * I + i)]; },
      [&](int64_t o, int64_t i) { return weights[static_cast<size_t>(o * I + i)]; });
  run(LinearForward{.x = x, .weight = weight, .out = out});
  expect_near(out, expected, 0x1p-8);
  run(LinearForward{.x = x, .weight = weight, .bias = bias, .out = out});
  for (size_t i = 0; i < expected.values.size(); ++i) expected.values[i] += biases[i % O];
  expect_near(out, expected, 0x1p-7);  // some kernels round before they add the bias
}

TEST_F(CudaFp8, GradientsMultiplyTheCopies) {
  for (const DType fp8 : {DType::f8e5m2, DType::f8e4m3}) {
    const Operand x = quantized({N, I}, DType::f8e4m3), weight = quantized({O, I}, DType::f8e4m3);
    const Operand d_out = quantized({N, O}, fp8);
    const auto x_values = dequantized(x), weights = dequantized(weight), gradients = dequantized(d_out);
    const Tensor d_x = take({N, I}, DType::bf16);
    run(LinearInputGrad{.d_out = d_out, .weight = weight, .d_x = d_x});
    expect_near(d_x,
                product(
                    N, I, O, [&](int64_t n, int64_t o) { return gradients[static_cast<size_t>(n * O + o)]; },
                    [&](int64_t i, int64_t o) { return weights[static_cast<size_t>(o * I + i)]; }),
                0x1p-8);

    const Tensor d_weight = uniform({O, I}, DType::f32), d_bias = uniform({O}, DType::f32);
    const auto weight_before = doubles(d_weight), bias_before = doubles(d_bias), wide = doubles(d_out.tensor);
    run(LinearWeightGrad{.x = x, .d_out = d_out, .d_weight = d_weight, .d_bias = d_bias});
    Matrix expected = product(
        O, I, N, [&](int64_t o, int64_t n) { return gradients[static_cast<size_t>(n * O + o)]; },
        [&](int64_t i, int64_t n) { return x_values[static_cast<size_t>(n * I + i)]; });
    for (size_t i = 0; i < weight_before.size(); ++i) expected.values[i] += weight_before[i];
    expect_near(d_weight, expected, 0x1p-23);
    // The gradient of the bias is that of the values before they were rounded to FP8.
    const auto bias_after = doubles(d_bias);
    for (int64_t o = 0; o < O; ++o) {
      double sum = bias_before[static_cast<size_t>(o)];
      for (int64_t n = 0; n < N; ++n) sum += wide[static_cast<size_t>(n * O + o)];
      EXPECT_NEAR(bias_after[static_cast<size_t>(o)], sum, 4 * N * 0x1p-24);
    }
  }
}

// Neighbouring numbers of e4m3 are 2^-3 apart, of e5m2 2^-2: half of that, and a little for functions that are not exact.
void expect_rounded(const std::vector<double>& got, const std::function<double(size_t)>& expected, double step, double floor) {
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected(i), 0.51 * step * std::abs(expected(i)) + floor) << i;
}

double gelu(double z) { return 0.5 * z * (1 + std::tanh(0.79788456080286536 * (z + 0.044715 * z * z * z))); }

TEST_F(CudaFp8, GeluIsMadeWithItsCopies) {
  const Tensor pre = uniform({N, O}, DType::bf16, 4);
  const auto z = doubles(pre);
  for (const Activation activation : {Activation::gelu_tanh, Activation::gelu_erf}) {
    Operand out = with_copies(take({N, O}, DType::bf16), DType::f8e4m3);
    out.wide = Wide::scratch;
    run(ActivationForward{.activation = activation, .pre = pre, .out = out});
    const auto expected = [&](size_t i) {
      return activation == Activation::gelu_tanh ? gelu(z[i]) : 0.5 * z[i] * (1 + std::erf(z[i] / std::sqrt(2.0)));
    };
    // Subnormal numbers are 2^-9 apart, times the inverse of a scale of 448 / 4.
    expect_rounded(dequantized(out), expected, 0x1p-3, 0x1p-9 * 4 / 448);
    const auto values = bytes(out.fp8.values), transposed = bytes(out.fp8.transposed);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t o = 0; o < O; ++o)
        ASSERT_EQ(values[static_cast<size_t>(n * O + o)], transposed[static_cast<size_t>(o * N + n)]);
  }
}

TEST_F(CudaFp8, SwigluIsMadeWithItsCopies) {
  const Tensor gate_up = uniform({N, 2 * O}, DType::bf16, 2);
  const auto z = doubles(gate_up);
  Operand out = with_copies(take({N, O}, DType::bf16), DType::f8e4m3);
  out.wide = Wide::scratch;
  run(SwigluForward{.gate_up = gate_up, .out = out});
  const auto expected = [&](size_t i) {
    const size_t at = i / O * 2 * O + i % O;
    return z[at] / (1 + std::exp(-z[at])) * z[at + O];
  };
  expect_rounded(dequantized(out), expected, 0x1p-3, 0x1p-9 * 4 / 448);
}

TEST_F(CudaFp8, GradientOfGeluIsMadeWithItsCopies) {
  const Operand d_out = quantized({N, O}, DType::f8e5m2), weight = quantized({O, I}, DType::f8e4m3);
  const Tensor pre = uniform({N, I}, DType::bf16, 4), plain = take({N, I}, DType::bf16);
  Operand d_x = with_copies(take({N, I}, DType::bf16), DType::f8e5m2);
  d_x.wide = Wide::scratch;
  run(LinearInputGrad{.d_out = d_out, .weight = weight, .d_x = plain});
  run(LinearInputGrad{.d_out = d_out, .weight = weight, .activation = Activation::gelu_tanh, .pre = pre, .d_x = d_x});
  const auto d_activated = doubles(plain), z = doubles(pre);
  const auto expected = [&](size_t i) {
    constexpr double kStep = 1e-5;
    return d_activated[i] * (gelu(z[i] + kStep) - gelu(z[i] - kStep)) / (2 * kStep);
  };
  const double amax = doubles(d_x.fp8.amax)[0];
  expect_rounded(dequantized(d_x), expected, 0x1p-2, 0x1p-16 * amax / 57344 + 1e-6 * amax);
  const auto sums = doubles(d_x.fp8.column_sums);
  for (int64_t i = 0; i < I; ++i) {
    double sum = 0, parts = 0;
    for (int64_t n = 0; n < N; ++n) sum += expected(static_cast<size_t>(n * I + i));
    for (size_t part = 0; part * I < sums.size(); ++part) parts += sums[part * I + static_cast<size_t>(i)];
    EXPECT_NEAR(parts, sum, 1e-5 * N * amax);
  }
}

// What backward makes of GELU beside the gradient is what forward made, and the gradient is what it is without that.
TEST_F(CudaFp8, GeluIsMadeAgainBesideItsGradient) {
  const Operand d_out = quantized({N, O}, DType::f8e5m2), weight = quantized({O, I}, DType::f8e4m3);
  const Tensor pre = uniform({N, I}, DType::bf16, 4);
  for (const Activation activation : {Activation::gelu_tanh, Activation::gelu_erf}) {
    Operand x = with_copies(take({N, I}, DType::bf16), DType::f8e4m3), d_x = with_copies(x.tensor, DType::f8e5m2), again = x;
    x.wide = again.wide = d_x.wide = Wide::scratch;
    run(ActivationForward{.activation = activation, .pre = pre, .out = x});
    LinearInputGrad op{.d_out = d_out, .weight = weight, .activation = activation, .pre = pre, .x = {}, .d_x = d_x};
    run(op);
    const auto values = bytes(d_x.fp8.values), transposed = bytes(d_x.fp8.transposed), sums = bytes(d_x.fp8.column_sums);
    again.fp8.values = again.fp8.column_sums = {};
    again.fp8.transposed = take({I, N}, DType::f8e4m3);
    again.fp8.scaling = &kDelayed;
    op.x = again;
    run(op);
    EXPECT_EQ(bytes(again.fp8.transposed), bytes(x.fp8.transposed));
    EXPECT_EQ(bytes(d_x.fp8.values), values);
    EXPECT_EQ(bytes(d_x.fp8.transposed), transposed);
    EXPECT_EQ(bytes(d_x.fp8.column_sums), sums);
  }
}

// A norm whose values alone are wanted writes them itself; backward makes the transposed ones. Both are those of the norm that is
// written first and copied then.
TEST_F(CudaFp8, NormsAreMadeAsValuesAndAgainTransposed) {
  for (const int64_t C : {144, 4096}) {
    const Tensor residual = uniform({N, C}, DType::bf16, 2), gain = uniform({C}, DType::bf16), bias = uniform({C}, DType::bf16);
    const Tensor mean = take({N}, DType::f32), rstd = take({N}, DType::f32);
    Operand copied = with_copies(take({N, C}, DType::bf16), DType::f8e4m3);
    copied.fp8.column_sums = {};
    copied.wide = Wide::scratch;
    ResidualNormForward op{.residual = residual, .weight = gain, .bias = bias, .out = copied, .mean = mean, .rstd = rstd};
    run(op);
    const auto amax = doubles(copied.fp8.amax)[0];
    Operand direct = copied;
    direct.fp8.values = take({N, C}, DType::f8e4m3);
    direct.fp8.transposed = {};
    direct.fp8.scaling = &kDelayed;
    direct.fp8.amax = upload(host_.uniform({1}, DType::f32, 0, 0));
    op.out = direct;
    run(op);
    EXPECT_EQ(bytes(direct.fp8.values), bytes(copied.fp8.values));
    EXPECT_EQ(doubles(direct.fp8.amax)[0], amax);
    Operand again = direct;
    again.fp8.values = {};
    again.fp8.transposed = take({C, N}, DType::f8e4m3);
    run(QuantizeNorm{.sum = residual, .weight = gain, .bias = bias, .mean = mean, .rstd = rstd, .out = again});
    EXPECT_EQ(bytes(again.fp8.transposed), bytes(copied.fp8.transposed));
  }
}

}  // namespace
}  // namespace trireme
