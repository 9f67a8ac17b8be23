// The gradient of residual add and norm.
#include <algorithm>

#include "backend/cuda/norm.cuh"

namespace trireme {
namespace cuda {
namespace {

template <class T>
struct BackwardArguments {
  int64_t N;
  int C;
  bool centred;
  float gain_offset;
  const T *sum, *weight;
  const float *mean, *rstd;     // mean may be null
  const T *d_out, *d_residual;  // d_residual may be null
  DropoutArguments dropout, dropout2;
  T *d_sum, *d_branch, *d_branch2;  // the branches may be null
  float* partials;                  // [blocks, 2, C]: of d_weight and of d_bias
};

template <class T, int W, int P, bool kWhole>
__device__ void store_dropped(const RowPart<T, W, P, kWhole>& d_sum, T* d_branch, const DropoutArguments& dropout, int64_t row,
                              int C) {
  if (!dropout.active()) return d_sum.store(d_branch + row * C, C);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    if (!d_sum.holds(p, C)) continue;
    const int column = d_sum.column(p);
    float factors[W];
    dropout.factors(row, column, factors);
#pragma unroll
    for (int k = 0; k < W; ++k) factors[k] *= d_sum.packs[p][k];
    Pack<T, W>::of(factors).store(d_branch + row * C + column);
  }
}

// The inputs of one row.
template <class T, int W, int P, bool kWhole>
struct BackwardRow {
  RowPart<T, W, P, kWhole> sum, d_out, d_residual;
  float mean = 0, rstd = 0;

  __device__ void load(const BackwardArguments<T>& a, int64_t row) {
    const int64_t at = row * a.C;
    sum.load_once(a.sum + at, a.C);
    d_out.load_once(a.d_out + at, a.C);
    if (a.d_residual) d_residual.load_once(a.d_residual + at, a.C);
    mean = a.mean ? a.mean[row] : 0;
    rstd = a.rstd[row];
  }
};

// If registers are free, the next row is loaded while the current one is computed.
template <int P>
inline constexpr bool kReadsAhead = P <= 2;

// The sums of both values over the team, on each of its threads. Like team_sum, but each half of a warp adds one of the two. A
// buffer may be reused only after the next sum, so callers alternate between two.
__device__ inline float2 team_sum2(float first, float second, float (&shared)[kWarp]) {
  constexpr int kHalf = kWarp / 2;
  static_assert(kMostThreads / kWarp <= kHalf);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  const bool low = lane < kHalf;
  const auto add_halves = [](float value) {
#pragma unroll
    for (int offset = kHalf / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
  };
  float value = add_halves((low ? first : second) + __shfl_xor_sync(0xffffffffu, low ? second : first, kHalf));
  if (warps > 1) {
    if (lane % kHalf == 0) shared[lane + warp] = value;
    __syncthreads();
    value = add_halves(lane % kHalf < warps ? shared[lane] : 0.0f);
  }
  return {__shfl_sync(0xffffffffu, value, 0), __shfl_sync(0xffffffffu, value, kHalf)};
}

// Sums over the rows of a block: adds its teams in order and writes the result to memory, for add_partials.
template <int W, int P>
__device__ void store_block_sums(const float (&sums)[P][W], int C, float* block_sums, float* partials) {
  float* mine = blockDim.y == 1 ? partials : block_sums + threadIdx.y * C;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = RowPart<float, W, P>::column(p);
    if (column < C) Pack<float, W>::of(sums[p]).store(mine + column);
  }
  if (blockDim.y == 1) return;
  __syncthreads();
  for (int column = threadIdx.y * blockDim.x + threadIdx.x; column < C; column += blockDim.x * blockDim.y) {
    float total = 0;
    for (unsigned team = 0; team < blockDim.y; ++team) total += block_sums[team * C + column];
    partials[column] = total;
  }
  __syncthreads();
}

// Each team takes every (number of teams)-th row and sums d_weight and d_bias of its rows in registers. kPlain: no dropout, no
// gain offset and no idle lanes.
template <class T, int W, int P, bool kPlain>
__global__ void __launch_bounds__(kMostThreads) norm_backward(const BackwardArguments<T> a) {
  __shared__ float shared[2][kWarp];
  extern __shared__ float4 block_sums[];  // [teams, C] floats if there are several teams
  RowPart<T, W, P, kPlain> weight;
  weight.load(a.weight, a.C);
  const auto gain = [&](int p, int k) { return kPlain ? weight.packs[p][k] : weight.packs[p][k] + a.gain_offset; };
  float d_weight[P][W] = {}, d_bias[P][W] = {};
  const float inverse_width = 1 / static_cast<float>(a.C);

  const int64_t stride = int64_t{gridDim.x} * blockDim.y, first = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  BackwardRow<T, W, P, kPlain> here, next;
  if (kReadsAhead<P> && first < a.N) next.load(a, first);
  int turn = 0;
  for (int64_t row = first; row < a.N; row += stride, turn ^= 1) {
    const int64_t at = row * a.C;
    if constexpr (kReadsAhead<P>) {
      here = next;
      if (row + stride < a.N) next.load(a, row + stride);
    } else {
      here.load(a, row);
    }
    auto& [sum, d_out, d_residual, mean, rstd] = here;

    weight.forget();
    float total = 0, total_product = 0;  // sums of d_out * gain, and of that times the normalised row
    for_each_element<W, P, kPlain>(a.C, [&](int p, int k) {
      const float normalised = (sum.packs[p][k] - mean) * rstd, gradient = d_out.packs[p][k];
      const float scaled = gradient * gain(p, k);
      total += scaled;
      total_product = fmaf(scaled, normalised, total_product);
      d_weight[p][k] = fmaf(gradient, normalised, d_weight[p][k]);
      d_bias[p][k] += gradient;
    });
    const float2 totals = team_sum2(total, total_product, shared[turn]);
    sum.forget(), d_out.forget(), weight.forget();

    // d_sum = (scaled - average - normalised * average_product) * rstd + d_residual
    const float offset = a.centred ? -totals.x * inverse_width * rstd : 0, slope = -totals.y * inverse_width * rstd * rstd;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (!sum.holds(p, a.C)) continue;
      float d_sum[W];
#pragma unroll
      for (int k = 0; k < W; ++k) {
        d_sum[k] = fmaf(d_out.packs[p][k] * gain(p, k), rstd, fmaf(sum.packs[p][k] - mean, slope, offset));
        if (a.d_residual) d_sum[k] += d_residual.packs[p][k];
      }
      sum.packs[p] = Pack<T, W>::of(d_sum);  // reuses the registers of sum
    }
    sum.store(a.d_sum + at, a.C);
    if constexpr (kPlain) {
      if (a.d_branch) sum.store(a.d_branch + at, a.C);
      if (a.d_branch2) sum.store(a.d_branch2 + at, a.C);
    } else {
      if (a.d_branch) store_dropped(sum, a.d_branch, a.dropout, row, a.C);
      if (a.d_branch2) store_dropped(sum, a.d_branch2, a.dropout2, row, a.C);
    }
  }

  float* partials = a.partials + int64_t{blockIdx.x} * 2 * a.C;
  store_block_sums<W, P>(d_weight, a.C, reinterpret_cast<float*>(block_sums), partials);
  store_block_sums<W, P>(d_bias, a.C, reinterpret_cast<float*>(block_sums), partials + a.C);
}

// to[c] += sum over blocks of partials[block, c]. A block has 32 columns; each of its warps takes every 32nd partial sum.
constexpr int kPartialWarps = 32;
__global__ void __launch_bounds__(kPartialWarps* kWarp)
    add_partials(const float* partials, int blocks, int C, float* d_weight, float* d_bias) {
  __shared__ float shared[kPartialWarps][kWarp + 1];
  const int lane = threadIdx.x, warp = threadIdx.y, column = static_cast<int>(blockIdx.x) * kWarp + lane;
  float total = 0;
  if (column < 2 * C) {
#pragma unroll 8
    for (int block = warp; block < blocks; block += kPartialWarps) total += partials[int64_t{block} * 2 * C + column];
  }
  shared[warp][lane] = total;
  __syncthreads();
  total = warp_sum(shared[lane][warp]);  // of column `warp`
  const int mine = static_cast<int>(blockIdx.x) * kWarp + warp;
  if (lane != 0 || mine >= 2 * C) return;
  if (mine < C)
    d_weight[mine] += total;
  else if (d_bias)
    d_bias[mine - C] += total;
}

// How many blocks share the rows, and how many teams each has. The order of the sums follows from it, so it depends only on the
// width and the device.
struct BackwardGrid {
  int teams, blocks;
  BackwardGrid(int team_threads, int multiprocessors)
      : teams(team_threads == kWarp ? 8 : 1), blocks(multiprocessors * std::max(1, kMostThreads / (team_threads * teams))) {}
};

}  // namespace
}  // namespace cuda

using namespace cuda;

int64_t CudaBackend::scratch_bytes(const ResidualNormBackward& op) const {
  const int64_t C = op.sum.shape[1];
  int blocks = 0;
  with_act(op.sum.dtype, [&]<class T>(T) {
    const auto consider = [&]<int W>(std::integral_constant<int, W>) {
      const TeamShape shape = team_shape<W>(C);
      if (shape.threads > 0) blocks = std::max(blocks, BackwardGrid(shape.threads, multiprocessors_).blocks);
    };
    consider(std::integral_constant<int, 1>{});  // the alignment of operands is unknown before they have storage
    if (C % Pack<T>::kSize == 0) consider(std::integral_constant<int, Pack<T>::kSize>{});
  });
  return blocks * 2 * C * size_of(DType::f32);
}

void CudaBackend::run(Stream stream, const ResidualNormBackward& op) {
  const int64_t N = op.sum.shape[0], C = op.sum.shape[1];
  CHECK_EQ(op.d_out.shape, op.sum.shape);
  CHECK(op.mean || op.kind == NormKind::rmsnorm);
  if (op.sum.count() == 0) return;
  auto* partials = static_cast<float*>(scratch(scratch_bytes(op)));
  int blocks = 0;
  with_act(op.sum.dtype, [&]<class T>(T) {
    const BackwardArguments<T> arguments{.N = N,
                                         .C = narrow<int>(C),
                                         .centred = op.kind != NormKind::rmsnorm,
                                         .gain_offset = gain_offset(op.kind),
                                         .sum = data_of<T>(op.sum),
                                         .weight = data_of<T>(op.weight),
                                         .mean = data_of<float>(op.mean),
                                         .rstd = data_of<float>(op.rstd),
                                         .d_out = data_of<T>(op.d_out),
                                         .d_residual = data_of<T>(op.d_residual),
                                         .dropout = DropoutArguments::of(op.dropout),
                                         .dropout2 = DropoutArguments::of(op.dropout2),
                                         .d_sum = data_of<T>(op.d_sum.tensor),
                                         .d_branch = data_of<T>(op.d_branch.tensor),
                                         .d_branch2 = data_of<T>(op.d_branch2.tensor),
                                         .partials = partials};
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      const TeamShape shape = team_shape<W>(C);
      const BackwardGrid grid(shape.threads, multiprocessors_);
      const bool plain = !op.dropout.active() && !op.dropout2.active() && arguments.gain_offset == 0 &&
                         shape.threads * shape.packs_per_thread * W == C;
      blocks = std::min(grid.blocks, blocks_for(N, grid.teams));
      const size_t shared = grid.teams > 1 ? static_cast<size_t>(grid.teams * C) * sizeof(float) : 0;
      const dim3 threads(static_cast<unsigned>(shape.threads), static_cast<unsigned>(grid.teams));
      with_packs_per_thread<W>(shape.packs_per_thread, [&]<int P>(std::integral_constant<int, P>) {
        with_flag(plain, [&]<bool kPlain>(std::bool_constant<kPlain>) {
          norm_backward<T, W, P, kPlain><<<blocks, threads, shared, this->stream(stream)>>>(arguments);
          check_launch(ResidualNormBackward::kName);
        });
      });
    };
    with_width<T>(C,
                  {op.sum.data, op.weight.data, op.d_out.data, op.d_residual.data, op.d_sum.tensor.data, op.d_branch.tensor.data,
                   op.d_branch2.tensor.data},
                  launch);
  });
  add_partials<<<blocks_for(2 * C, kWarp), dim3(kWarp, kPartialWarps), 0, this->stream(stream)>>>(
      partials, blocks, narrow<int>(C), data_of<float>(op.d_weight), data_of<float>(op.d_bias));
  check_launch("add_partials");
  for (const Operand* written : {&op.d_sum, &op.d_branch, &op.d_branch2}) fill_copies(stream, *written);
}

}  // namespace trireme
