// Shared by our kernels: 16-byte accesses, block sums in a fixed order, dropout, and dispatch by dtype.
#pragma once

#include <cuda_bf16.h>

#include <initializer_list>
#include <type_traits>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "base/philox.h"

namespace trireme::cuda {

using device_bf16 = __nv_bfloat16;

// Calls use with the device type of an activation dtype.
template <class Use>
void with_act(DType dtype, Use&& use) {
  if (dtype == DType::bf16) return use(device_bf16{});
  CHECK(dtype == DType::f32);
  use(float{});
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);  // null if an optional operand is absent
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(device_bf16 x) { return __bfloat162float(x); }
template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, float>)
    return x;
  else
    return __float2bfloat16(x);
}

// W neighbouring elements, by default as many as 16 bytes hold, loaded and stored in accesses of up to 16 bytes. Addresses must
// be aligned to the access; W = 1 is for unaligned rows. Pairs of bf16 are kept as 32-bit words, because separately each would
// take a register.
template <class T, int W = 16 / sizeof(T)>
struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) Pack {
  static constexpr int kSize = W;
  static constexpr bool kPairs = sizeof(T) == 2 && W % 2 == 0;
  std::conditional_t<kPairs, uint32_t, T> words[kPairs ? W / 2 : W] = {};

  __device__ static Pack load(const T* from) { return *reinterpret_cast<const Pack*>(from); }
  // For data that is read once: does not evict other data from the caches.
  __device__ static Pack load_once(const T* from) {
    if constexpr (sizeof(Pack) % sizeof(int4) != 0)
      return load(from);
    else {
      constexpr int kAccesses = sizeof(Pack) / sizeof(int4);
      struct alignas(16) Bits {
        int4 accesses[kAccesses];
      } bits;
#pragma unroll
      for (int i = 0; i < kAccesses; ++i) bits.accesses[i] = __ldcs(reinterpret_cast<const int4*>(from) + i);
      return *reinterpret_cast<const Pack*>(&bits);
    }
  }
  __device__ void store(T* to) const { *reinterpret_cast<Pack*>(to) = *this; }
  __device__ float operator[](int i) const {
    if constexpr (kPairs)
      return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
    else
      return to_float(words[i]);
  }
  // Rounds pairs with one instruction, where set takes two per element.
  __device__ static Pack of(const float (&values)[W]) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < W; ++i) {
      if constexpr (kPairs) {
        if (i % 2 == 0) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pack.words[i / 2]) : "f"(values[i + 1]), "f"(values[i]));
      } else {
        pack.words[i] = from_float<T>(values[i]);
      }
    }
    return pack;
  }
  __device__ void set(int i, float x) {
    if constexpr (kPairs) {
      const uint32_t bits = __bfloat16_as_ushort(__float2bfloat16(x));
      words[i / 2] = i % 2 == 0 ? __byte_perm(words[i / 2], bits, 0x3254) : __byte_perm(words[i / 2], bits, 0x5410);
    } else {
      words[i] = from_float<T>(x);
    }
  }
};

inline bool aligned16(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

// Chooses how many elements of T a thread accesses at once in rows of C: 16 bytes if every row of every operand is aligned to 16
// bytes (absent operands count as aligned), else one.
template <class T, class Use>
void with_width(int64_t C, std::initializer_list<const void*> operands, Use&& use) {
  constexpr int kWidth = Pack<T>::kSize;
  bool aligned = C % kWidth == 0;
  for (const void* operand : operands) aligned = aligned && aligned16(operand);
  if (aligned)
    use(std::integral_constant<int, kWidth>{});
  else
    use(std::integral_constant<int, 1>{});
}

inline constexpr int kWarp = 32;

template <class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}
__device__ inline float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// The sum over all threads of the block, on every thread. `shared` holds one value per warp and may be reused afterwards.
template <class T>
__device__ T block_sum(T value, T* shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = (blockDim.x + kWarp - 1) / kWarp;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = lane < warps ? shared[lane] : T{};
  value = warp_sum(value);
  __syncthreads();
  return value;
}

// Dropout as defined in ops.h, as kernel arguments.
struct DropoutArguments {
  const int64_t* row_keys = nullptr;
  uint64_t seed = 0;
  uint32_t site = 0;
  uint32_t threshold = 0;
  float scale = 1;

  static DropoutArguments of(const Dropout& dropout) {
    if (!dropout.active()) return {};
    return {data_of<const int64_t>(dropout.row_keys), dropout.seed, dropout.site, dropout_threshold(dropout.probability),
            1 / (1 - dropout.probability)};
  }
  __host__ __device__ bool active() const { return row_keys != nullptr; }
  // The factors of elements column .. column + W - 1 of a row. column is a multiple of W, which is 1 or a multiple of 4.
  template <int W>
  __device__ void factors(int64_t row, int64_t column, float (&out)[W]) const {
    const int64_t key = row_keys[row];
    if constexpr (W == 1) {
      out[0] = dropout_block(seed, site, key, column)[column % 4] >= threshold ? scale : 0;
    } else {
#pragma unroll
      for (int begin = 0; begin < W; begin += 4) {
        const PhiloxBlock bits = dropout_block(seed, site, key, column + begin);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[begin + i] = bits[i] >= threshold ? scale : 0;
      }
    }
  }
};

inline int blocks_for(int64_t work, int64_t per_block) { return narrow<int>(ceil_div(work, per_block)); }

// Calls body.template operator()<W>(i) for each pack of W elements, where i is its first element. One pack per thread.
inline constexpr int kPackThreads = 256;
template <int W, class Body>
__global__ void __launch_bounds__(kPackThreads) each_pack(int64_t packs, const Body body) {
  const int64_t pack = int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  if (pack < packs) body.template operator()<W>(pack * W);
}
template <int W, class Body>
void for_each_pack(cudaStream_t stream, int64_t count, const Body& body, const char* name) {
  const int64_t packs = div_exact(count, W);
  if (packs == 0) return;
  each_pack<W><<<blocks_for(packs, kPackThreads), kPackThreads, 0, stream>>>(packs, body);
  check_launch(name);
}

}  // namespace trireme::cuda
