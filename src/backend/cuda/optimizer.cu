// The norm of gradients and AdamW over flat buffers. Ranges of a buffer are split into pieces of a fixed size, one block each, so
// that the order of every sum depends only on the ranges. The ranges are passed as kernel arguments, so nothing is copied and
// nothing waits.
#include <algorithm>
#include <cmath>

#include "backend/cuda/kernel.cuh"

namespace trireme {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kPiece = 8192;  // elements per piece

// As many ranges as fit into the 4 KB of a kernel's arguments.
template <class Range>
struct RangeChunk {
  static constexpr int kMost = 3584 / static_cast<int>(sizeof(Range) + sizeof(int));
  int count = 0;
  int first_piece[kMost + 1] = {};  // of each range; the last entry is the number of pieces
  Range ranges[kMost] = {};

  // Removes ranges from the front of `rest`.
  explicit RangeChunk(std::span<const Range>& rest) {
    count = static_cast<int>(std::min<size_t>(kMost, rest.size()));
    for (int i = 0; i < count; ++i) {
      ranges[i] = rest[i];
      first_piece[i + 1] = narrow<int>(first_piece[i] + ceil_div(rest[i].count, kPiece));
    }
    rest = rest.subspan(count);
  }
  int pieces() const { return first_piece[count]; }

  // The range of a piece: the last one that starts at or before it and is not empty.
  __device__ int range_of(int piece) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_piece[middle] <= piece)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

template <class Range>
int64_t count_pieces(std::span<const Range> ranges) {
  int64_t pieces = 0;
  for (const Range& range : ranges) pieces += ceil_div(range.count, kPiece);
  return pieces;
}

// Elements are accessed four at once: 16 bytes of f32, 8 of bf16. The phase of a buffer is the position of its first element in
// such a group. If the phases of several buffers differ, elements are accessed one by one.
constexpr int kUnaligned = -1;
template <class T>
int phase_of(const T* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) / sizeof(T) % 4);
}

// Visits the piece of a block: use(std::integral_constant<int, W>, i), with W = 4 for aligned groups and W = 1 at the edges.
template <class Range, class Use>
__device__ void for_each_group(const Range& range, int piece, int phase, Use&& use) {
  const int64_t begin = range.begin + piece * kPiece, end = min(begin + kPiece, range.begin + range.count);
  const int64_t aligned = phase == kUnaligned ? end : min(end, begin + (4 - (begin + phase) % 4) % 4);
  const int64_t groups = (end - aligned) / 4, rest = aligned + 4 * groups;
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, 4> kFour;
  for (int64_t i = begin + threadIdx.x; i < aligned; i += kThreads) use(kOne, i);
#pragma unroll 4
  for (int64_t group = threadIdx.x; group < groups; group += kThreads) use(kFour, aligned + 4 * group);
  for (int64_t i = rest + threadIdx.x; i < end; i += kThreads) use(kOne, i);
}

// ---------------------------------------------------------------------------------------------------------------- norm

// The squares are summed in double, because those of large gradients exceed f32.
__global__ void __launch_bounds__(kThreads)
    sum_pieces(const __grid_constant__ RangeChunk<FlatRange> chunk, int phase, const float* grads, double* partials) {
  __shared__ double shared[kWarp];
  const int piece = static_cast<int>(blockIdx.x), range = chunk.range_of(piece);
  double sum = 0;
  for_each_group(chunk.ranges[range], piece - chunk.first_piece[range], phase,
                 [&]<int W>(std::integral_constant<int, W>, int64_t i) {
                   const auto pack = Pack<float, W>::load_once(grads + i);
#pragma unroll
                   for (int k = 0; k < W; ++k) sum += static_cast<double>(pack[k]) * static_cast<double>(pack[k]);
                 });
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partials[piece] = sum;
}

// One block adds the pieces of a range.
__global__ void __launch_bounds__(kThreads)
    sum_ranges(const __grid_constant__ RangeChunk<FlatRange> chunk, const double* partials, double* squares) {
  __shared__ double shared[kWarp];
  double sum = 0;
  for (int piece = chunk.first_piece[blockIdx.x] + static_cast<int>(threadIdx.x); piece < chunk.first_piece[blockIdx.x + 1];
       piece += kThreads)
    sum += partials[piece];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__device__ double& slot(double* scalars, StepScalar which) { return scalars[static_cast<int64_t>(which)]; }

__global__ void __launch_bounds__(kThreads) apply_clip(double max_norm, int64_t count, const double* squares, double* scalars) {
  __shared__ double shared[kWarp];
  double sum = 0;
  for (int64_t r = threadIdx.x; r < count; r += kThreads) sum += squares[r];
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  const double loss_scale = slot(scalars, StepScalar::loss_scale);
  const double norm = sqrt(sum) / loss_scale, factor = max_norm / (norm + 1e-6);
  const bool finite = isfinite(norm) && isfinite(slot(scalars, StepScalar::loss_sum));
  slot(scalars, StepScalar::grad_norm) = norm;
  slot(scalars, StepScalar::finite) = finite ? 1 : 0;
  slot(scalars, StepScalar::clip_factor) = (max_norm > 0 && factor < 1 ? factor : 1) / loss_scale;
  slot(scalars, StepScalar::updates) += finite ? 1 : 0;
}

__global__ void multiply_inverse_targets(double* scalars) {
  slot(scalars, StepScalar::inverse_targets) *= slot(scalars, StepScalar::loss_scale);
}

__global__ void adapt_loss_scale(double growth_interval, double hysteresis, double* scalars) {
  double &scale = slot(scalars, StepScalar::loss_scale), &growth_steps = slot(scalars, StepScalar::growth_steps),
         &patience = slot(scalars, StepScalar::patience);
  if (slot(scalars, StepScalar::finite) == 0) {
    growth_steps = 0;
    patience -= 1;
    if (patience <= 0) scale *= UpdateLossScale::kBackoff;
    return;
  }
  patience = hysteresis;
  growth_steps += 1;
  if (growth_steps < growth_interval) return;
  growth_steps = 0;
  if (isfinite(static_cast<float>(scale * UpdateLossScale::kGrowth))) scale *= UpdateLossScale::kGrowth;
}

// --------------------------------------------------------------------------------------------------------------- adamw

// The factors that are the same for all elements; the powers are computed once, in double.
struct AdamWFactors {
  float finite, clip, beta1, one_minus_beta1, beta2, one_minus_beta2, m_correction, root_v_correction, epsilon, learning_rate;
};

__global__ void make_factors(double beta1, double beta2, double epsilon, double* scalars, AdamWFactors* factors) {
  const double updates = slot(scalars, StepScalar::updates);
  *factors = {.finite = static_cast<float>(slot(scalars, StepScalar::finite)),
              .clip = static_cast<float>(slot(scalars, StepScalar::clip_factor)),
              .beta1 = static_cast<float>(beta1),
              .one_minus_beta1 = static_cast<float>(1 - beta1),
              .beta2 = static_cast<float>(beta2),
              .one_minus_beta2 = static_cast<float>(1 - beta2),
              .m_correction = static_cast<float>(1 / (1 - pow(beta1, updates))),
              .root_v_correction = static_cast<float>(1 / sqrt(1 - pow(beta2, updates))),
              .epsilon = static_cast<float>(epsilon),
              .learning_rate = static_cast<float>(slot(scalars, StepScalar::learning_rate))};
}

template <class M, class V, class T>
struct AdamWBuffers {
  const float* grads;
  float* master;
  M* m;
  V* v;
  T* weights;  // null if the masters are the weights
};

template <class M, class V, class T>
__global__ void __launch_bounds__(kThreads) adamw(const __grid_constant__ RangeChunk<DecayRange> chunk, int phase,
                                                  const AdamWFactors* factors, const AdamWBuffers<M, V, T> buffers) {
  const AdamWFactors f = *factors;
  if (f.finite == 0) return;
  const int range = chunk.range_of(static_cast<int>(blockIdx.x));
  const float decay = chunk.ranges[range].weight_decay;
  for_each_group(chunk.ranges[range], static_cast<int>(blockIdx.x) - chunk.first_piece[range], phase,
                 [&]<int W>(std::integral_constant<int, W>, int64_t i) {
                   using Values = Pack<float, W>;
                   const Values grads = Values::load_once(buffers.grads + i);
                   Pack<M, W> first = Pack<M, W>::load_once(buffers.m + i);
                   Pack<V, W> second = Pack<V, W>::load_once(buffers.v + i);
                   Values master = Values::load_once(buffers.master + i);
                   Pack<T, W> weights;
#pragma unroll
                   for (int k = 0; k < W; ++k) {
                     const float gradient = grads[k] * f.clip;
                     const float m = f.beta1 * first[k] + f.one_minus_beta1 * gradient;
                     const float v = f.beta2 * second[k] + f.one_minus_beta2 * gradient * gradient;
                     first.set(k, m);
                     second.set(k, v);
                     const float direction = m * f.m_correction / (sqrtf(v) * f.root_v_correction + f.epsilon);
                     master.set(k, master[k] - f.learning_rate * (direction + decay * master[k]));
                     weights.set(k, master[k]);
                   }
                   first.store(buffers.m + i);
                   second.store(buffers.v + i);
                   master.store(buffers.master + i);
                   if (buffers.weights) weights.store(buffers.weights + i);
                 });
}

template <class Range>
void check_ranges(std::span<const Range> ranges, int64_t count) {
  for (const Range& range : ranges) CHECK(range.begin >= 0 && range.count >= 0 && range.begin + range.count <= count);
}

}  // namespace
}  // namespace cuda

using namespace cuda;

int64_t CudaBackend::scratch_bytes(const SquaredNorms& op) const { return count_pieces(op.ranges) * size_of(DType::f64); }

void CudaBackend::run(Stream stream, const SquaredNorms& op) {
  CHECK_EQ(op.squares.count(), static_cast<int64_t>(op.ranges.size()));
  CHECK(op.grads.dtype == DType::f32 && op.squares.dtype == DType::f64);
  check_ranges(op.ranges, op.grads.count());
  const cudaStream_t on = this->stream(stream);
  const auto* grads = data_of<const float>(op.grads);
  auto* partials = static_cast<double*>(scratch(scratch_bytes(op)));  // one per piece
  auto* squares = data_of<double>(op.squares);
  for (std::span<const FlatRange> rest = op.ranges; !rest.empty();) {
    const RangeChunk<FlatRange> chunk(rest);
    if (chunk.pieces() > 0) sum_pieces<<<chunk.pieces(), kThreads, 0, on>>>(chunk, phase_of(grads), grads, partials);
    sum_ranges<<<chunk.count, kThreads, 0, on>>>(chunk, partials, squares);
    check_launch(SquaredNorms::kName);
    partials += chunk.pieces();
    squares += chunk.count;
  }
}

void CudaBackend::run(Stream stream, const ApplyClip& op) {
  apply_clip<<<1, kThreads, 0, this->stream(stream)>>>(op.max_norm, op.squares.count(), data_of<const double>(op.squares),
                                                       data_of<double>(op.scalars));
  check_launch(ApplyClip::kName);
}

void CudaBackend::run(Stream stream, const ScaleLoss& op) {
  multiply_inverse_targets<<<1, 1, 0, this->stream(stream)>>>(data_of<double>(op.scalars));
  check_launch(ScaleLoss::kName);
}

void CudaBackend::run(Stream stream, const UpdateLossScale& op) {
  adapt_loss_scale<<<1, 1, 0, this->stream(stream)>>>(static_cast<double>(op.growth_interval), static_cast<double>(op.hysteresis),
                                                      data_of<double>(op.scalars));
  check_launch(UpdateLossScale::kName);
}

int64_t CudaBackend::scratch_bytes(const AdamW&) const { return sizeof(AdamWFactors); }

void CudaBackend::run(Stream stream, const AdamW& op) {
  check_ranges(op.ranges, op.master.count());
  const cudaStream_t on = this->stream(stream);
  auto* factors = static_cast<AdamWFactors*>(scratch(scratch_bytes(op)));
  make_factors<<<1, 1, 0, on>>>(op.beta1, op.beta2, op.epsilon, data_of<double>(op.scalars), factors);
  check_launch("make_factors");
  const auto launch = [&]<class M, class V, class T>(M, V, T) {
    const AdamWBuffers<M, V, T> buffers{.grads = data_of<const float>(op.grads),
                                        .master = data_of<float>(op.master),
                                        .m = data_of<M>(op.m),
                                        .v = data_of<V>(op.v),
                                        .weights = op.weights.data == op.master.data ? nullptr : data_of<T>(op.weights)};
    const int own = phase_of(buffers.master);
    const bool alike = phase_of(buffers.grads) == own && phase_of(buffers.m) == own && phase_of(buffers.v) == own &&
                       phase_of(data_of<T>(op.weights)) == own;
    const int phase = alike ? own : kUnaligned;
    for (std::span<const DecayRange> rest = op.ranges; !rest.empty();) {
      const RangeChunk<DecayRange> chunk(rest);
      if (chunk.pieces() == 0) continue;
      adamw<M, V, T><<<chunk.pieces(), kThreads, 0, on>>>(chunk, phase, factors, buffers);
      check_launch(AdamW::kName);
    }
  };
  with_act(op.weights.dtype, [&]<class T>(T act) {
    with_act(op.m.dtype, [&]<class M>(M m) { with_act(op.v.dtype, [&]<class V>(V v) { launch(m, v, act); }); });
  });
}

}  // namespace trireme
