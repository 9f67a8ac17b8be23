// Cross entropy: one block per row of logits. The statistics are computed in one pass, with a running maximum and a sum that is
// rescaled to it.
#include <limits>

#include "backend/cuda/kernel.cuh"
#include "backend/cuda/loss.h"

namespace trireme {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kFusedThreads = 512;
constexpr int kUnroll = 4;  // packs per thread that are loaded at once
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// exp(x - from) by the hardware's exp2. The difference is taken before the scaling, so that the maximum gives exactly 1.
__device__ float exp_of_difference(float x, float from) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"((x - from) * 1.4426950408889634f));
  return result;
}

// Sum of exp(logit - highest) over some logits. Logits of minus infinity have weight 0, even if there are no others. A logit that
// is NaN or infinity makes the sum NaN.
struct RowStats {
  float highest = kLowest, sum = 0;

  // The reference of the exponents: infinity - infinity would be NaN as long as there are no logits.
  __device__ static float origin(float highest) { return highest == kLowest ? 0 : highest; }
  __device__ void raise(float to) {
    const float higher = fmaxf(highest, to);
    sum *= exp_of_difference(highest, origin(higher));
    highest = higher;
  }
};

// The joined statistics of all threads, on every thread.
__device__ RowStats join_block(RowStats mine) {
  __shared__ float shared[kWarp];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  const float warp_highest = warp_max(mine.highest);
  if (lane == 0) shared[warp] = warp_highest;
  __syncthreads();
  mine.raise(warp_max(lane < warps ? shared[lane] : kLowest));
  __syncthreads();
  mine.sum = block_sum(mine.sum, shared);
  return mine;
}

// A row of logits as packs: `whole` of them are inside the vocabulary; one more may straddle its end.
template <class T, int W>
struct LogitsRow {
  T* logits;
  int width, vocabulary;

  __device__ int packs() const { return width / W; }
  __device__ int whole() const { return vocabulary / W; }
};

// Calls keep(pack number, pack) for each pack that overlaps the vocabulary.
template <class T, int W, class Keep>
__device__ RowStats row_stats(const LogitsRow<T, W>& row, Keep&& keep) {
  RowStats stats;
  int first = threadIdx.x;
  for (; first + (kUnroll - 1) * blockDim.x < row.whole(); first += kUnroll * blockDim.x) {
    Pack<T, W> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) packs[u] = Pack<T, W>::load(row.logits + (first + u * blockDim.x) * W);
    float highest = kLowest;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
#pragma unroll
      for (int k = 0; k < W; ++k) highest = fmaxf(highest, packs[u][k]);
    stats.raise(highest);
    const float origin = RowStats::origin(stats.highest);
    float sums[kUnroll] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int k = 0; k < W; ++k) sums[u] += exp_of_difference(packs[u][k], origin);
      keep(first + u * blockDim.x, packs[u]);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) stats.sum += sums[u];
  }
  for (; first * W < row.vocabulary; first += blockDim.x) {
    const Pack<T, W> pack = Pack<T, W>::load(row.logits + first * W);
    float values[W], highest = kLowest;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      values[k] = first * W + k < row.vocabulary ? pack[k] : kLowest;
      highest = fmaxf(highest, values[k]);
    }
    stats.raise(highest);
    const float origin = RowStats::origin(stats.highest);
#pragma unroll
    for (int k = 0; k < W; ++k) stats.sum += exp_of_difference(values[k], origin);
    keep(first, pack);
  }
  return join_block(stats);
}

// Maps a logit of a row to its gradient.
struct RowGradient {
  float highest, inverse_sum, scale;
  int target;  // column; -1: not in this part

  template <class T, int W>
  __device__ Pack<T, W> of(const Pack<T, W>& logits, int column, int vocabulary) const {
    Pack<T, W> out;
    if (column + W <= vocabulary && (target < column || target >= column + W)) {
      const float factor = inverse_sum * scale;
#pragma unroll
      for (int k = 0; k < W; ++k) out.set(k, exp_of_difference(logits[k], highest) * factor);
    } else {
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float softmax = exp_of_difference(logits[k], highest) * inverse_sum;
        out.set(k, column + k < vocabulary ? (column + k == target ? softmax - 1 : softmax) * scale : 0.0f);
      }
    }
    return out;
  }
};

template <class T, int W>
__device__ void clear_row(const LogitsRow<T, W>& row, int first_pack) {
  for (int pack = first_pack + threadIdx.x; pack < row.packs(); pack += blockDim.x) Pack<T, W>{}.store(row.logits + pack * W);
}

template <class T>
struct LossArguments {
  int64_t first_column;
  int width, vocabulary;
  const int32_t* targets;
  float *row_max, *row_sum, *target_logit;
  T* logits;
  float* losses;
  double* scalars;

  template <int W>
  __device__ LogitsRow<T, W> row(int64_t n) const {
    return {logits + n * width, width, vocabulary};
  }
  // The column of a row's target; -1: masked or in another part of the vocabulary.
  __device__ int target_column(int64_t n) const {
    const int64_t column = targets[n] - first_column;
    return targets[n] >= 0 && column >= 0 && column < vocabulary ? static_cast<int>(column) : -1;
  }
  __device__ float logit_of_target(int64_t n) const {
    const int column = target_column(n);
    return column < 0 ? 0 : to_float(logits[n * width + column]);
  }
  __device__ float scale() const { return static_cast<float>(scalars[static_cast<int64_t>(StepScalar::inverse_targets)]); }
};

template <class T, int W>
__global__ void __launch_bounds__(kThreads) stats_kernel(const LossArguments<T> a) {
  const int64_t n = blockIdx.x;
  const RowStats stats = row_stats(a.template row<W>(n), [](int, const Pack<T, W>&) {});
  if (threadIdx.x != 0) return;
  a.row_max[n] = stats.highest;
  a.row_sum[n] = stats.sum;
  a.target_logit[n] = a.logit_of_target(n);
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads) grad_kernel(const LossArguments<T> a) {
  const int64_t n = blockIdx.x;
  const LogitsRow<T, W> row = a.template row<W>(n);
  if (a.targets[n] < 0) return clear_row(row, 0);
  const RowGradient gradient{a.row_max[n], 1 / a.row_sum[n], a.scale(), a.target_column(n)};
  int first = threadIdx.x;
  for (; first + (kUnroll - 1) * blockDim.x < row.packs(); first += kUnroll * blockDim.x) {
    Pack<T, W> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) packs[u] = Pack<T, W>::load_once(row.logits + (first + u * blockDim.x) * W);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int column = (first + u * blockDim.x) * W;
      gradient.of(packs[u], column, a.vocabulary).store(row.logits + column);
    }
  }
  for (; first < row.packs(); first += blockDim.x)
    gradient.of(Pack<T, W>::load_once(row.logits + first * W), first * W, a.vocabulary).store(row.logits + first * W);
}

// Each thread keeps the packs it reads in shared memory. Two blocks per multiprocessor hold a row each, so that one reads memory
// while the other computes. Each thread reads back only its own packs, so no barrier is needed.
template <class T, int W>
__global__ void __launch_bounds__(kFusedThreads, 2) fused_kernel(const LossArguments<T> a, WriteGrad write_grad) {
  extern __shared__ int4 kept_bytes[];
  auto* kept = reinterpret_cast<T*>(kept_bytes);
  const int64_t n = blockIdx.x;
  const LogitsRow<T, W> row = a.template row<W>(n);
  const float target_logit = a.logit_of_target(n);
  const RowStats stats = row_stats(row, [&](int pack, const Pack<T, W>& values) { values.store(kept + pack * W); });
  if (threadIdx.x == 0) {
    a.row_max[n] = stats.highest;
    a.row_sum[n] = stats.sum;
    a.target_logit[n] = target_logit;
  }
  if (write_grad == WriteGrad::no) return;
  if (a.targets[n] < 0) return clear_row(row, 0);
  const RowGradient gradient{stats.highest, 1 / stats.sum, a.scale(), a.target_column(n)};
  const int packs = (a.vocabulary + W - 1) / W;
#pragma unroll 4
  for (int pack = threadIdx.x; pack < packs; pack += blockDim.x)
    gradient.of(Pack<T, W>::load(kept + pack * W), pack * W, a.vocabulary).store(row.logits + pack * W);
  clear_row(row, packs);
}

// Writes the losses and adds their sum to scalars.loss_sum. One block does it all: thread i takes every 1024th row from i on.
constexpr int kSumThreads = 1024;
template <class T>
__global__ void __launch_bounds__(kSumThreads) losses_kernel(int64_t N, const LossArguments<T> a) {
  __shared__ double shared[kWarp];
  double sum = 0;
#pragma unroll 4
  for (int64_t n = threadIdx.x; n < N; n += kSumThreads) {
    const float loss = logf(a.row_sum[n]) + (a.row_max[n] - a.target_logit[n]);
    a.losses[n] = a.targets[n] < 0 ? 0 : loss;
    sum += a.targets[n] < 0 ? 0 : static_cast<double>(loss);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) a.scalars[static_cast<int64_t>(StepScalar::loss_sum)] += sum;
}

__global__ void rescale_sums(int64_t N, const float* part_max, const float* row_max, float* row_sum) {
  const int64_t n = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n < N) row_sum[n] *= expf(part_max[n] - row_max[n]);
}

template <class T, class Op>
LossArguments<T> loss_arguments(const Op& op) {
  CHECK_EQ(op.targets.count(), op.logits.shape[0]);
  CHECK(op.vocabulary >= 0 && op.vocabulary <= op.logits.shape[1]);
  return {.first_column = op.first_column,
          .width = narrow<int>(op.logits.shape[1]),
          .vocabulary = narrow<int>(op.vocabulary),
          .targets = data_of<const int32_t>(op.targets),
          .row_max = data_of<float>(op.row_max),
          .row_sum = data_of<float>(op.row_sum),
          .target_logit = data_of<float>(op.target_logit),
          .logits = data_of<T>(op.logits),
          .losses = nullptr,
          .scalars = nullptr};
}

template <class T>
LossArguments<T> grad_arguments(const CrossEntropyGrad& op) {
  LossArguments<T> arguments = loss_arguments<T>(op);
  arguments.losses = data_of<float>(op.losses);
  arguments.scalars = data_of<double>(op.scalars);
  return arguments;
}

template <class T>
void launch_losses(cudaStream_t stream, const CrossEntropyGrad& op) {
  losses_kernel<<<1, kSumThreads, 0, stream>>>(op.losses.count(), grad_arguments<T>(op));
  check_launch("losses");
}

}  // namespace

bool can_fuse_cross_entropy(const Tensor& logits) {
  int device = 0, most = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  constexpr int64_t kOther = 1024;  // shared memory of the kernel besides the row
  return logits.shape[1] * size_of(logits.dtype) + kOther <= most;
}

void cross_entropy_fused(cudaStream_t stream, const CrossEntropyStats& stats, const CrossEntropyGrad& grad) {
  const int64_t N = grad.logits.shape[0], V = grad.logits.shape[1];
  CHECK(stats.logits.data == grad.logits.data);
  if (grad.logits.count() == 0) return;
  with_act(grad.logits.dtype, [&]<class T>(T) {
    with_width<T>(V, {grad.logits.data}, [&]<int W>(std::integral_constant<int, W>) {
      const int bytes = narrow<int>(round_up(V * size_of(grad.logits.dtype), 16));
      CUDA_CHECK(cudaFuncSetAttribute(fused_kernel<T, W>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
      fused_kernel<T, W><<<narrow<int>(N), kFusedThreads, bytes, stream>>>(grad_arguments<T>(grad), grad.write_grad);
      check_launch("cross_entropy_fused");
    });
    launch_losses<T>(stream, grad);
  });
}

}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const CrossEntropyStats& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  if (N == 0) return;
  with_act(op.logits.dtype, [&]<class T>(T) {
    with_width<T>(V, {op.logits.data}, [&]<int W>(std::integral_constant<int, W>) {
      stats_kernel<T, W><<<narrow<int>(N), kThreads, 0, this->stream(stream)>>>(loss_arguments<T>(op));
      check_launch(CrossEntropyStats::kName);
    });
  });
}

void CudaBackend::run(Stream stream, const RescaleSums& op) {
  const int64_t N = op.row_sum.count();
  if (N == 0) return;
  rescale_sums<<<blocks_for(N, kThreads), kThreads, 0, this->stream(stream)>>>(
      N, data_of<const float>(op.part_max), data_of<const float>(op.row_max), data_of<float>(op.row_sum));
  check_launch(RescaleSums::kName);
}

int64_t CudaBackend::scratch_bytes(const CrossEntropyGrad&) const { return 0; }

void CudaBackend::run(Stream stream, const CrossEntropyGrad& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  if (N == 0) return;
  const cudaStream_t on = this->stream(stream);
  with_act(op.logits.dtype, [&]<class T>(T) {
    launch_losses<T>(on, op);
    if (op.write_grad == WriteGrad::no) return;
    with_width<T>(V, {op.logits.data}, [&]<int W>(std::integral_constant<int, W>) {
      grad_kernel<T, W><<<narrow<int>(N), kThreads, 0, on>>>(grad_arguments<T>(op));
      check_launch(CrossEntropyGrad::kName);
    });
  });
}

void CudaBackend::run(Stream stream, const CrossEntropy& op) {
  if (can_fuse_cross_entropy(op.logits)) return cross_entropy_fused(this->stream(stream), op.stats(), op.grad());
  run(stream, op.stats());
  run(stream, op.grad());
}

}  // namespace trireme
