// Shared by the norm kernels. A team of threads holds a whole row in registers, so that it is read from memory once. Narrow rows
// have a warp per team and several teams per block, wide rows a block per team. Each thread has P packs of W elements;
// neighbouring threads have neighbouring packs.
#pragma once

#include <array>

#include "backend/cuda/kernel.cuh"

namespace trireme::cuda {

inline constexpr int kMostThreads = 512;  // per team: leaves each thread 128 registers, for a row and the sums over rows

// The packs that a thread may have. W = 1 is for unaligned rows, which are rare.
template <int W>
inline constexpr auto kPacksPerThread = std::array{2, 3, 4, 8};
template <>
inline constexpr auto kPacksPerThread<1> = std::array{4, 32};

struct TeamShape {
  int packs_per_thread = 0;
  int threads = 0;
};

// Returns the shape with the fewest idle lanes, then with the fewest registers. threads = 0: the row is too wide.
template <int W>
TeamShape team_shape(int64_t C) {
  TeamShape best;
  for (const int each : kPacksPerThread<W>) {
    const int64_t threads = round_up(ceil_div(div_exact(C, W), each), kWarp);
    if (threads > kMostThreads) continue;
    if (best.threads == 0 || threads * each < int64_t{best.threads} * best.packs_per_thread)
      best = {.packs_per_thread = each, .threads = static_cast<int>(threads)};
  }
  return best;
}

// Calls use with the packs per thread as a compile-time constant.
template <int W, size_t kChoice = 0, class Use>
void with_packs_per_thread(int packs, Use&& use) {
  if constexpr (kChoice < kPacksPerThread<W>.size()) {
    constexpr int P = kPacksPerThread<W>[kChoice];
    if (packs == P)
      use(std::integral_constant<int, P>{});
    else
      with_packs_per_thread<W, kChoice + 1>(packs, use);
  }
}

// Sums over the team, on each of its threads. blockDim.x is the size of a team, blockDim.y the number of teams, which is 1 unless
// a team is a warp.
template <int K>
__device__ void team_sum(float (&values)[K], float (&shared)[K][kWarp]) {
#pragma unroll
  for (int k = 0; k < K; ++k) values[k] = warp_sum(values[k]);
  if (blockDim.x == kWarp) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  if (lane == 0) {
#pragma unroll
    for (int k = 0; k < K; ++k) shared[k][warp] = values[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) values[k] = warp_sum(lane < warps ? shared[k][lane] : 0.0f);
  __syncthreads();  // the next sum reuses `shared`
}

// The packs of one row that this thread holds. kWhole: every thread holds all P of them.
template <class T, int W, int P, bool kWhole = false>
struct RowPart {
  Pack<T, W> packs[P];

  __device__ static int column(int p) { return (p * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * W; }
  __device__ static bool holds(int p, int C) { return kWhole || column(p) < C; }
  __device__ void load(const T* row, int C) {
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (holds(p, C)) packs[p] = Pack<T, W>::load(row + column(p));
  }
  __device__ void load_once(const T* row, int C) {
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (holds(p, C)) packs[p] = Pack<T, W>::load_once(row + column(p));
  }
  __device__ void store(T* row, int C) const {
#pragma unroll
    for (int p = 0; p < P; ++p)
      if (holds(p, C)) packs[p].store(row + column(p));
  }
  // Makes the compiler treat the packs as new values. Otherwise it keeps the floats computed from them in registers, at twice the
  // size, until their next use, although converting again is cheap.
  __device__ void forget() {
    if constexpr (sizeof(Pack<T, W>) == 16) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        auto* words = reinterpret_cast<uint32_t*>(packs[p].words);
        asm volatile("" : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]));
      }
    }
  }
};

// Calls use(p, k) for each element of a row that this thread holds.
template <int W, int P, bool kWhole = false, class Use>
__device__ void for_each_element(int C, Use&& use) {
#pragma unroll
  for (int p = 0; p < P; ++p)
    if (RowPart<float, W, P, kWhole>::holds(p, C)) {
#pragma unroll
      for (int k = 0; k < W; ++k) use(p, k);
    }
}

// Multiplications and additions are explicit, so that a recomputed norm has equal bits however the compiler optimises around it.
__device__ inline float norm_value(float x, float mean, float rstd, float gain, float bias) {
  return fmaf(__fmul_rn(x - mean, rstd), gain, bias);
}

// layernorm1p stores its gain minus one.
inline float gain_offset(NormKind kind) { return kind == NormKind::layernorm1p ? 1 : 0; }

// Calls use with the flag as a compile-time constant.
template <class Use>
void with_flag(bool flag, Use&& use) {
  if (flag)
    use(std::true_type{});
  else
    use(std::false_type{});
}

}  // namespace trireme::cuda
