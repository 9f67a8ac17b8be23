// Residual add and norm in one pass over the rows.
#include "backend/cuda/fp8.cuh"
#include "backend/cuda/norm.cuh"

namespace trireme {
namespace cuda {
namespace {

template <class T>
struct ForwardArguments {
  int64_t N;
  int C;
  const T *residual, *branch, *branch2;  // the branches may be null
  DropoutArguments dropout, dropout2;
  bool centred;
  float gain_offset, epsilon;
  const T *weight, *bias;  // bias may be null
  T *sum, *out;            // sum may be null
  uint8_t* values;         // e4m3; if not null, `out` has no reader
  const float* scale;      // of the values
  float* amax;
  float *mean, *rstd;  // mean may be null
};

template <bool kDropout, class T, int W>
__device__ void add_branch(float (&total)[W], const Pack<T, W>& branch, const DropoutArguments& dropout, int64_t row,
                           int column) {
  float factors[W];
  if (kDropout && dropout.active()) {
    dropout.factors(row, column, factors);
  } else {
#pragma unroll
    for (int k = 0; k < W; ++k) factors[k] = 1;
  }
#pragma unroll
  for (int k = 0; k < W; ++k) total[k] += branch[k] * factors[k];
}

// values = residual + the branches, rounded to T, and stored. All loads are issued before the first result is needed.
template <bool kDropout, class T, int W, int P>
__device__ void load_sum(const ForwardArguments<T>& a, int64_t row, RowPart<T, W, P>& values) {
  const int64_t at = row * a.C;
  values.load(a.residual + at, a.C);
  if (!a.branch) return;
  RowPart<T, W, P> first, second;
  first.load_once(a.branch + at, a.C);
  if (a.branch2) second.load_once(a.branch2 + at, a.C);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = values.column(p);
    if (column >= a.C) continue;
    float total[W];
#pragma unroll
    for (int k = 0; k < W; ++k) total[k] = values.packs[p][k];
    add_branch<kDropout>(total, first.packs[p], a.dropout, row, column);
    if (a.branch2) add_branch<kDropout>(total, second.packs[p], a.dropout2, row, column);
#pragma unroll
    for (int k = 0; k < W; ++k) values.packs[p].set(k, total[k]);
    values.packs[p].store(a.sum + at + column);
  }
}

template <class T, int W>
__device__ void store_values(const Pack<T, W>& out, float scale, uint8_t* to, uint32_t& largest) {
  if constexpr (W == 8) {
    uint32_t words[2];
#pragma unroll
    for (int w = 0; w < 2; ++w) {
      const float x[4] = {out[4 * w], out[4 * w + 1], out[4 * w + 2], out[4 * w + 3]};
#pragma unroll
      for (int k = 0; k < 4; ++k) largest = max(largest, size_bits(x[k]));
      words[w] = four_bytes<__NV_E4M3>(x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale);
    }
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  }
}

// Whether only the FP8 values of the norm are needed and their scale is known. The kernel then writes them directly.
bool values_only(const Operand& out) {
  const Fp8Copy& fp8 = out.fp8;
  return out.dtype() == DType::bf16 && out.wide == Wide::scratch && fp8.values && fp8.values.dtype == DType::f8e4m3 &&
         !fp8.transposed && !fp8.column_sums && *fp8.scaling == Fp8Scaling::delayed;
}

// Mean and variance are two separate sums over registers. This costs little and stays accurate when the mean is far from zero.
template <class T, int W, int P, bool kDropout>
__global__ void __launch_bounds__(kMostThreads) norm_forward(const ForwardArguments<T> a) {
  __shared__ float shared[1][kWarp];
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= a.N) return;
  RowPart<T, W, P> values;
  load_sum<kDropout>(a, row, values);
  const auto width = static_cast<float>(a.C);

  float mean = 0;
  if (a.centred) {
    float total[1] = {};
    for_each_element<W, P>(a.C, [&](int p, int k) { total[0] += values.packs[p][k]; });
    team_sum(total, shared);
    mean = total[0] / width;
    values.forget();
  }
  float squares[1] = {};
  for_each_element<W, P>(a.C, [&](int p, int k) {
    const float distance = values.packs[p][k] - mean;
    squares[0] = fmaf(distance, distance, squares[0]);
  });
  team_sum(squares, shared);
  values.forget();
  const float rstd = 1 / sqrtf(squares[0] / width + a.epsilon);
  if (threadIdx.x == 0) {
    if (a.mean) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }

  const float scale = a.values ? *a.scale : 0;
  uint32_t largest = 0;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = values.column(p);
    if (column >= a.C) continue;
    const Pack<T, W> weight = Pack<T, W>::load(a.weight + column), bias = Pack<T, W>::load((a.bias ? a.bias : a.weight) + column);
    Pack<T, W> out;
#pragma unroll
    for (int k = 0; k < W; ++k)
      out.set(k, norm_value(values.packs[p][k], mean, rstd, weight[k] + a.gain_offset, a.bias ? bias[k] : 0.0f));
    if (a.values)
      store_values(out, scale, a.values + row * a.C + column, largest);
    else
      out.store(a.out + row * a.C + column);
  }
  if (a.values) raise_amax(largest, a.amax);
}

}  // namespace
}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const ResidualNormForward& op) {
  const int64_t N = op.out.shape()[0], C = op.out.shape()[1];
  CHECK_EQ(op.residual.shape, op.out.shape());
  CHECK_EQ(static_cast<bool>(op.branch), static_cast<bool>(op.sum));
  CHECK(op.branch || !op.branch2);
  CHECK(op.mean || op.kind == NormKind::rmsnorm);
  if (op.out.count() == 0) return;
  const bool at_once = values_only(op.out);
  with_act(op.out.dtype(), [&]<class T>(T) {
    const ForwardArguments<T> arguments{.N = N,
                                        .C = narrow<int>(C),
                                        .residual = data_of<T>(op.residual),
                                        .branch = data_of<T>(op.branch),
                                        .branch2 = data_of<T>(op.branch2),
                                        .dropout = DropoutArguments::of(op.dropout),
                                        .dropout2 = DropoutArguments::of(op.dropout2),
                                        .centred = op.kind != NormKind::rmsnorm,
                                        .gain_offset = gain_offset(op.kind),
                                        .epsilon = op.epsilon,
                                        .weight = data_of<T>(op.weight),
                                        .bias = data_of<T>(op.bias),
                                        .sum = data_of<T>(op.sum),
                                        .out = data_of<T>(op.out.tensor),
                                        .values = at_once ? data_of<uint8_t>(op.out.fp8.values) : nullptr,
                                        .scale = data_of<const float>(op.out.fp8.scale),
                                        .amax = data_of<float>(op.out.fp8.amax),
                                        .mean = data_of<float>(op.mean),
                                        .rstd = data_of<float>(op.rstd)};
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      CHECK(!at_once || W == 8);
      const TeamShape shape = team_shape<W>(C);
      const dim3 threads(static_cast<unsigned>(shape.threads), shape.threads == kWarp ? 4 : 1);
      with_packs_per_thread<W>(shape.packs_per_thread, [&]<int P>(std::integral_constant<int, P>) {
        with_flag(op.dropout.active() || op.dropout2.active(), [&]<bool kDropout>(std::bool_constant<kDropout>) {
          norm_forward<T, W, P, kDropout><<<blocks_for(N, threads.y), threads, 0, this->stream(stream)>>>(arguments);
          check_launch(ResidualNormForward::kName);
        });
      });
    };
    with_width<T>(
        C, {op.residual.data, op.branch.data, op.branch2.data, op.weight.data, op.bias.data, op.sum.data, op.out.tensor.data},
        launch);
  });
  if (!at_once) fill_copies(stream, op.out);
}

}  // namespace trireme
