#include <algorithm>

#include "backend/cuda/kernel.cuh"
#include "backend/cuda/linear_kernels.h"

namespace trireme::cuda {
namespace {

__device__ float gelu_tanh_slope(float z) {
  constexpr float kRoot = 0.7978845608028654f, kCube = 0.044715f;  // sqrt(2/pi)
  const float t = tanhf(kRoot * (z + kCube * z * z * z));
  return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * kRoot * (1 + 3 * kCube * z * z);
}

__device__ float gelu_erf_slope(float z) {
  constexpr float kInverseRoot2 = 0.7071067811865476f, kDensity = 0.3989422804014327f;  // 1/sqrt(2 pi)
  return 0.5f * (1 + erff(z * kInverseRoot2)) + z * kDensity * expf(-0.5f * z * z);
}

template <class T, Activation activation>
__global__ void activation_backward_kernel(const T* pre, T* d, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float z = to_float(pre[i]);
  const float slope = activation == Activation::gelu_tanh ? gelu_tanh_slope(z) : gelu_erf_slope(z);
  d[i] = from_float<T>(to_float(d[i]) * slope);
}

constexpr int kSumWarps = 8;  // per block; they share the rows of a stripe
constexpr int kColumnsPerBlock = 256;
constexpr int kMostStripes = 256;  // row ranges that are summed concurrently

// Enough blocks to fill any GPU several times, but no more, because each writes a row of partial sums. Depends only on the shape,
// and so does the order of the sums.
int stripes_of(int64_t N, int64_t C) {
  constexpr int64_t kBlocks = 2048;
  const int64_t wanted = kBlocks / blocks_for(C, kColumnsPerBlock);
  return static_cast<int>(std::clamp<int64_t>(wanted, 16, std::min<int64_t>(kMostStripes, std::max<int64_t>(N / 32, 16))));
}

// Block (x, y) sums stripe y of the columns from 256 x on. Each warp takes every 8th row, with several loads in flight; then the
// warps are added in order.
template <class T>
__global__ void __launch_bounds__(kSumWarps* kWarp)
    stripe_sums(const T* values, int64_t N, int64_t C, int64_t rows, float* partial) {
  __shared__ float shared[kSumWarps][kColumnsPerBlock];
  constexpr int kPerLane = kColumnsPerBlock / kWarp;
  constexpr int kUnroll = 8;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t column = int64_t{blockIdx.x} * kColumnsPerBlock + lane * kPerLane;
  const int64_t end = min((blockIdx.y + 1) * rows, N);
  int64_t n = blockIdx.y * rows + warp;
  float sum[kPerLane] = {};
  if (column + kPerLane <= C && C % kPerLane == 0 && reinterpret_cast<uintptr_t>(values) % 16 == 0) {
    using Row = Pack<T, kPerLane>;
    for (; n + (kUnroll - 1) * kSumWarps < end; n += kUnroll * kSumWarps) {
      Row read[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) read[u] = Row::load(values + (n + u * kSumWarps) * C + column);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) sum[i] += read[u][i];
    }
  }
  for (; n < end; n += kSumWarps)
    for (int i = 0; i < kPerLane; ++i)
      if (column + i < C) sum[i] += to_float(values[n * C + column + i]);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) shared[warp][lane * kPerLane + i] = sum[i];
  __syncthreads();
  const int64_t mine = int64_t{blockIdx.x} * kColumnsPerBlock + threadIdx.x;
  if (mine >= C) return;
  float total = 0;
  for (int w = 0; w < kSumWarps; ++w) total += shared[w][threadIdx.x];
  partial[blockIdx.y * C + mine] = total;
}

// A block has 32 columns. Each warp adds every 8th partial sum; then the warps are added in order.
__global__ void __launch_bounds__(kSumWarps* kWarp) add_parts(const float* partial, int64_t parts, int64_t C, float* sums) {
  __shared__ float shared[kSumWarps][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float total = 0;
  if (column < C) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < parts; part += kSumWarps) total += partial[part * C + column];
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= C) return;
  total = 0;
  for (int warp = 0; warp < kSumWarps; ++warp) total += shared[warp][threadIdx.x];
  sums[column] += total;
}

}  // namespace

void activation_backward(Activation activation, Tensor pre, Tensor d, cudaStream_t stream) {
  with_act(d.dtype, [&]<class T>(T) {
    constexpr int kThreads = 256;
    const int blocks = blocks_for(d.count(), kThreads);
    if (activation == Activation::gelu_tanh)
      activation_backward_kernel<T, Activation::gelu_tanh>
          <<<blocks, kThreads, 0, stream>>>(data_of<T>(pre), data_of<T>(d), d.count());
    else
      activation_backward_kernel<T, Activation::gelu_erf>
          <<<blocks, kThreads, 0, stream>>>(data_of<T>(pre), data_of<T>(d), d.count());
    check_launch("activation_backward");
  });
}

void add_partial_sums(Tensor partial, Tensor sums, cudaStream_t stream) {
  const int64_t parts = partial.shape[0], C = partial.shape[1];
  add_parts<<<blocks_for(C, kWarp), dim3(kWarp, kSumWarps), 0, stream>>>(data_of<const float>(partial), parts, C,
                                                                         data_of<float>(sums));
  check_launch("add_parts");
}

int64_t column_sums_scratch(const Tensor& values) {
  return stripes_of(values.shape[0], values.shape[1]) * values.shape[1] * size_of(DType::f32);
}

void add_column_sums(Tensor values, Tensor sums, void* scratch, cudaStream_t stream) {
  const int64_t N = values.shape[0], C = values.shape[1];
  const int stripes = stripes_of(N, C);
  const Tensor partial{.data = scratch, .dtype = DType::f32, .shape = {stripes, C}, .device = Device::cuda};
  with_act(values.dtype, [&]<class T>(T) {
    const dim3 grid(static_cast<unsigned>(blocks_for(C, kColumnsPerBlock)), static_cast<unsigned>(stripes));
    stripe_sums<T><<<grid, kSumWarps * kWarp, 0, stream>>>(data_of<const T>(values), N, C, ceil_div(N, int64_t{stripes}),
                                                           data_of<float>(partial));
    check_launch("stripe_sums");
  });
  add_partial_sums(partial, sums, stream);
}

}  // namespace trireme::cuda
