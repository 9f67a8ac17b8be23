// Fill, copy and sum with conversion, and random numbers.
#include <cmath>

#include "backend/cuda/kernel.cuh"

namespace trireme {
namespace cuda {
namespace {

template <class T>
struct FillElements {
  T value;
  T* out;

  template <int W>
  __device__ void operator()(int64_t i) const {
    struct alignas(W * sizeof(T)) {
      T values[W];
    } pack;
#pragma unroll
    for (int k = 0; k < W; ++k) pack.values[k] = value;
    *reinterpret_cast<decltype(pack)*>(out + i) = pack;
  }
};

template <class From, class To>
struct Convert {
  const From* from;
  To* to;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const Pack<From, W> values = Pack<From, W>::load_once(from + i);
    Pack<To, W> out;
#pragma unroll
    for (int k = 0; k < W; ++k) out.set(k, values[k]);
    out.store(to + i);
  }
};

template <class From>
struct AddTo {
  const From* from;
  float* to;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const Pack<From, W> values = Pack<From, W>::load_once(from + i);
    Pack<float, W> sums = Pack<float, W>::load(to + i);
#pragma unroll
    for (int k = 0; k < W; ++k) sums.set(k, sums[k] + values[k]);
    sums.store(to + i);
  }
};

// Four normals per thread, in double like the reference; those outside of the tensor are skipped.
__global__ void random_normal(double mean, double deviation, uint64_t seed, uint32_t site, int64_t first, int64_t count,
                              float* out) {
  const int64_t block = first / 4 + int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto number = static_cast<uint64_t>(block);
  const PhiloxBlock bits = philox(seed, {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), site, 0});
#pragma unroll
  for (int pair = 0; pair < 4; pair += 2) {
    constexpr double kTwoPi = 6.283185307179586476925;
    const double radius = sqrt(-2.0 * log(uniform_open(bits[pair]))), angle = kTwoPi * uniform_open(bits[pair + 1]);
    const double draws[2] = {radius * cos(angle), radius * sin(angle)};
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int64_t i = 4 * block + pair + k - first;
      if (i >= 0 && i < count) out[i] = static_cast<float>(mean + deviation * draws[k]);
    }
  }
}

template <class T>
void fill(cudaStream_t stream, const Tensor& out, T value) {
  with_width<T>(out.count(), {out.data}, [&]<int W>(std::integral_constant<int, W>) {
    for_each_pack<W>(stream, out.count(), FillElements<T>{value, data_of<T>(out)}, Fill::kName);
  });
}

// Both sides use whole 16-byte accesses: as many elements as 16 bytes of the narrower type hold.
template <class Op, class Body>
void for_each_element(cudaStream_t stream, const Op& op, const Body& body) {
  constexpr int kWidth = Pack<device_bf16>::kSize;
  if (op.to.count() % kWidth == 0 && aligned16(op.from.data) && aligned16(op.to.data))
    for_each_pack<kWidth>(stream, op.to.count(), body, Op::kName);
  else
    for_each_pack<1>(stream, op.to.count(), body, Op::kName);
}

template <class From, class To>
void convert(cudaStream_t stream, const Copy& op) {
  for_each_element(stream, op, Convert<From, To>{data_of<From>(op.from), data_of<To>(op.to)});
}

}  // namespace
}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const Fill& op) {
  const cudaStream_t on = this->stream(stream);
  if (op.value == 0 && !std::signbit(op.value)) {
    CUDA_CHECK(cudaMemsetAsync(op.out.data, 0, static_cast<size_t>(op.out.bytes()), on));
    return;
  }
  switch (op.out.dtype) {
    case DType::f32:
      return fill(on, op.out, static_cast<float>(op.value));
    case DType::bf16:
      return fill(on, op.out, __float2bfloat16(static_cast<float>(op.value)));
    case DType::f64:
      return fill(on, op.out, op.value);
    default:
      CHECK_NEVER("dtype without arithmetic");
  }
}

void CudaBackend::run(Stream stream, const Copy& op) {
  const cudaStream_t on = this->stream(stream);
  CHECK_EQ(op.from.count(), op.to.count());
  if (op.from.dtype == op.to.dtype) {
    if (op.from.data == op.to.data) return;
    CUDA_CHECK(cudaMemcpyAsync(op.to.data, op.from.data, static_cast<size_t>(op.to.bytes()), cudaMemcpyDefault, on));
  } else if (op.from.dtype == DType::f32 && op.to.dtype == DType::bf16) {
    convert<float, device_bf16>(on, op);
  } else {
    CHECK(op.from.dtype == DType::bf16 && op.to.dtype == DType::f32);
    convert<device_bf16, float>(on, op);
  }
}

void CudaBackend::run(Stream stream, const Accumulate& op) {
  const cudaStream_t on = this->stream(stream);
  CHECK_EQ(op.from.count(), op.to.count());
  CHECK(op.to.dtype == DType::f32);
  if (op.from.dtype == DType::f32) return for_each_element(on, op, AddTo<float>{data_of<float>(op.from), data_of<float>(op.to)});
  CHECK(op.from.dtype == DType::bf16);
  for_each_element(on, op, AddTo<device_bf16>{data_of<device_bf16>(op.from), data_of<float>(op.to)});
}

void CudaBackend::run(Stream stream, const RandomNormal& op) {
  CHECK(op.out.dtype == DType::f32);
  const int64_t count = op.out.count();
  if (count == 0) return;
  constexpr int kThreads = 128;
  const int64_t draws = (op.first + count - 1) / 4 - op.first / 4 + 1;
  random_normal<<<blocks_for(draws, kThreads), kThreads, 0, this->stream(stream)>>>(op.mean, op.deviation, op.seed, op.site,
                                                                                    op.first, count, data_of<float>(op.out));
  check_launch(RandomNormal::kName);
}

}  // namespace trireme
