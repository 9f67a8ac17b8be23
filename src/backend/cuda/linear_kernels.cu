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

constexpr int kStripes = 256;  // row ranges that are summed side by side
constexpr int kSumWarps = 8;   // of a block; they share a stripe's rows
constexpr int kColumnsPerBlock = 256;

// Block (x, y) sums stripe y of columns 256 x ..: each warp a part of the rows, then the warps in order.
template <class T>
__global__ void stripe_sums(const T* values, int64_t N, int64_t C, float* partial) {
  __shared__ float shared[kSumWarps][kColumnsPerBlock];
  constexpr int kPerLane = kColumnsPerBlock / kWarp;  // 8: one pack of bf16
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t column = int64_t{blockIdx.x} * kColumnsPerBlock + lane * kPerLane;
  const int64_t rows = (N + kStripes - 1) / kStripes, begin = blockIdx.y * rows, end = min(begin + rows, N);
  float sum[kPerLane] = {};
  const bool whole = column + kPerLane <= C && C % kPerLane == 0;
  for (int64_t n = begin + warp; n < end; n += kSumWarps) {
    const T* row = values + n * C + column;
    if (whole) {
#pragma unroll
      for (int p = 0; p < kPerLane; p += Pack<T>::kSize) {
        const Pack<T> pack = Pack<T>::load(row + p);
#pragma unroll
        for (int i = 0; i < Pack<T>::kSize; ++i) sum[p + i] += pack[i];
      }
    } else {
      for (int i = 0; i < kPerLane; ++i)
        if (column + i < C) sum[i] += to_float(row[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) shared[warp][lane * kPerLane + i] = sum[i];
  __syncthreads();
  const int64_t mine = int64_t{blockIdx.x} * kColumnsPerBlock + threadIdx.x;
  if (mine >= C) return;
  float total = 0;
  for (int w = 0; w < kSumWarps; ++w) total += shared[w][threadIdx.x];
  partial[blockIdx.y * C + mine] = total;
}

// One warp's worth of stripes per column: block.y lanes each add every 8th stripe, then in order.
__global__ void add_stripes(const float* partial, int64_t C, float* sums) {
  __shared__ float shared[8][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float total = 0;
  if (column < C)
    for (int stripe = threadIdx.y; stripe < kStripes; stripe += 8) total += partial[stripe * C + column];
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= C) return;
  total = 0;
  for (int i = 0; i < 8; ++i) total += shared[i][threadIdx.x];
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

int64_t column_sums_scratch(const Tensor& values) { return kStripes * values.shape[1] * size_of(DType::f32); }

void add_column_sums(Tensor values, Tensor sums, void* scratch, cudaStream_t stream) {
  const int64_t N = values.shape[0], C = values.shape[1];
  auto* partial = static_cast<float*>(scratch);
  with_act(values.dtype, [&]<class T>(T) {
    const dim3 grid(static_cast<unsigned>(blocks_for(C, kColumnsPerBlock)), kStripes);
    stripe_sums<T><<<grid, kSumWarps * kWarp, 0, stream>>>(data_of<const T>(values), N, C, partial);
    check_launch("stripe_sums");
  });
  add_stripes<<<blocks_for(C, kWarp), dim3(kWarp, 8), 0, stream>>>(partial, C, data_of<float>(sums));
  check_launch("add_stripes");
}

}  // namespace trireme::cuda
