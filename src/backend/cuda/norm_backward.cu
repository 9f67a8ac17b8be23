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

template <class T, int W, int P>
__device__ void store_dropped(const RowPart<T, W, P>& d_sum, T* d_branch, const DropoutArguments& dropout, int64_t row, int C) {
  if (!dropout.active()) return d_sum.store(d_branch + row * C, C);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = d_sum.column(p);
    if (column >= C) continue;
    float factors[W];
    dropout.factors(row, column, factors);
    Pack<T, W> dropped;
#pragma unroll
    for (int k = 0; k < W; ++k) dropped.set(k, d_sum.packs[p][k] * factors[k]);
    dropped.store(d_branch + row * C + column);
  }
}

// What is read of a row.
template <class T, int W, int P>
struct BackwardRow {
  RowPart<T, W, P> sum, d_out, d_residual;
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

// Rows that leave registers free are read while the one before is worked on.
template <int P>
inline constexpr bool kReadsAhead = P <= 2;

// Each team takes every (number of teams)-th row and sums d_weight and d_bias of its rows in registers; the teams of a block are
// added in order, and what blocks have goes to memory, for add_partials.
template <class T, int W, int P, bool kDropout>
__global__ void __launch_bounds__(kMostThreads) norm_backward(const BackwardArguments<T> a) {
  __shared__ float shared[2][kWarp];
  extern __shared__ float block_sums[];  // [2, C] where there are several teams
  RowPart<T, W, P> weight;
  weight.load(a.weight, a.C);
  float d_weight[P][W] = {}, d_bias[P][W] = {};
  const float inverse_width = 1 / static_cast<float>(a.C);

  const int64_t stride = int64_t{gridDim.x} * blockDim.y, first = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  BackwardRow<T, W, P> here, next;
  if (kReadsAhead<P> && first < a.N) next.load(a, first);
  for (int64_t row = first; row < a.N; row += stride) {
    const int64_t at = row * a.C;
    if constexpr (kReadsAhead<P>) {
      here = next;
      if (row + stride < a.N) next.load(a, row + stride);
    } else {
      here.load(a, row);
    }
    auto& [sum, d_out, d_residual, mean, rstd] = here;

    weight.forget();
    float averages[2] = {};  // of d_out * gain, and of that times the normalised row
    for_each_element<W, P>(a.C, [&](int p, int k) {
      const float normalised = (sum.packs[p][k] - mean) * rstd, gradient = d_out.packs[p][k];
      const float scaled = gradient * (weight.packs[p][k] + a.gain_offset);
      averages[0] += scaled;
      averages[1] += scaled * normalised;
      d_weight[p][k] += gradient * normalised;
      d_bias[p][k] += gradient;
    });
    team_sum(averages, shared);
    sum.forget(), d_out.forget(), weight.forget();
    const float average = a.centred ? averages[0] * inverse_width : 0, average_product = averages[1] * inverse_width;

    for_each_element<W, P>(a.C, [&](int p, int k) {
      const float normalised = (sum.packs[p][k] - mean) * rstd;
      const float scaled = d_out.packs[p][k] * (weight.packs[p][k] + a.gain_offset);
      const float gradient = (scaled - average - normalised * average_product) * rstd;
      sum.packs[p].set(k, a.d_residual ? gradient + d_residual.packs[p][k] : gradient);  // d_sum takes its place
    });
    sum.store(a.d_sum + at, a.C);
    if constexpr (kDropout) {
      if (a.d_branch) store_dropped(sum, a.d_branch, a.dropout, row, a.C);
      if (a.d_branch2) store_dropped(sum, a.d_branch2, a.dropout2, row, a.C);
    } else {
      if (a.d_branch) sum.store(a.d_branch + at, a.C);
      if (a.d_branch2) sum.store(a.d_branch2 + at, a.C);
    }
  }

  float* partials = a.partials + int64_t{blockIdx.x} * 2 * a.C;
  float* totals = blockDim.y == 1 ? partials : block_sums;
  for (unsigned team = 0; team < blockDim.y; ++team) {
    if (threadIdx.y == team)
      for_each_element<W, P>(a.C, [&](int p, int k) {
        const int column = RowPart<T, W, P>::column(p) + k;
        totals[column] = (team == 0 ? 0 : totals[column]) + d_weight[p][k];
        totals[a.C + column] = (team == 0 ? 0 : totals[a.C + column]) + d_bias[p][k];
      });
    __syncthreads();
  }
  if (blockDim.y > 1)
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 2 * a.C; i += blockDim.x * blockDim.y) partials[i] = totals[i];
}

// to[c] += sum over blocks of partials[block, c]: a block has 32 columns, each of its warps every 32nd partial sum of them.
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

// How many blocks share the rows, and how many teams are in each. The partial sums follow from it, so it depends on nothing but
// the width and the machine.
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
    consider(std::integral_constant<int, 1>{});  // whether operands will be aligned is not known before they have storage
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
                                         .d_sum = data_of<T>(op.d_sum),
                                         .d_branch = data_of<T>(op.d_branch),
                                         .d_branch2 = data_of<T>(op.d_branch2),
                                         .partials = partials};
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      const TeamShape shape = team_shape<W>(C);
      const BackwardGrid grid(shape.threads, multiprocessors_);
      blocks = std::min(grid.blocks, blocks_for(N, grid.teams));
      const size_t shared = grid.teams > 1 ? static_cast<size_t>(2 * C) * sizeof(float) : 0;
      const dim3 threads(static_cast<unsigned>(shape.threads), static_cast<unsigned>(grid.teams));
      with_packs_per_thread<W>(shape.packs_per_thread, [&]<int P>(std::integral_constant<int, P>) {
        with_dropout(op.dropout, op.dropout2, [&]<bool kDropout>(std::bool_constant<kDropout>) {
          norm_backward<T, W, P, kDropout><<<blocks, threads, shared, this->stream(stream)>>>(arguments);
          check_launch(ResidualNormBackward::kName);
        });
      });
    };
    with_width<T>(
        C, {op.sum.data, op.weight.data, op.d_out.data, op.d_residual.data, op.d_sum.data, op.d_branch.data, op.d_branch2.data},
        launch);
  });
  add_partials<<<blocks_for(2 * C, kWarp), dim3(kWarp, kPartialWarps), 0, this->stream(stream)>>>(
      partials, blocks, narrow<int>(C), data_of<float>(op.d_weight), data_of<float>(op.d_bias));
  check_launch("add_partials");
  for (const Operand* written : {&op.d_sum, &op.d_branch, &op.d_branch2}) fill_copies(stream, *written);
}

}  // namespace trireme
