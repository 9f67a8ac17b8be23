#include "backend/cuda/activation.cuh"
#include "backend/cuda/fp8.cuh"
#include "backend/cuda/norm.cuh"
#include "backend/cuda/quantize.h"
#include "tensor/fp8.h"

namespace trireme {
namespace cuda {
namespace {

// ------------------------------------------------------------------------------------------- where values come from

// A source gives 8 neighbouring values of a row: fetch starts their loads, value computes each of them.
constexpr int kRun = 8;
using Run = Pack<device_bf16, kRun>;

struct Plain {
  const device_bf16* x;
  int64_t C;

  using Fetched = Run;
  __device__ Fetched fetch(int64_t row, int64_t column) const { return Run::load_once(x + row * C + column); }
  __device__ static float value(const Fetched& from, int k) { return from[k]; }
};

// f32 masters of weights that exist only in FP8.
struct PlainF32 {
  const float* x;
  int64_t C;

  struct Fetched {
    Pack<float, 4> low, high;
  };
  __device__ Fetched fetch(int64_t row, int64_t column) const {
    const float* at = x + row * C + column;
    return {Pack<float, 4>::load_once(at), Pack<float, 4>::load_once(at + 4)};
  }
  __device__ static float value(const Fetched& from, int k) { return k < 4 ? from.low[k] : from.high[k - 4]; }
};

template <Activation kind>
struct Activated {
  const device_bf16* pre;
  int64_t C;

  using Fetched = Run;
  __device__ Fetched fetch(int64_t row, int64_t column) const { return Run::load_once(pre + row * C + column); }
  __device__ static float value(const Fetched& from, int k) { return activate<kind>(from[k]); }
};

template <Activation kind>
struct ActivationGrad {
  const device_bf16 *d, *pre;
  int64_t C;

  struct Fetched {
    Run d, pre;
  };
  __device__ Fetched fetch(int64_t row, int64_t column) const {
    return {Run::load_once(d + row * C + column), Run::load_once(pre + row * C + column)};
  }
  __device__ static float value(const Fetched& from, int k) { return from.d[k] * activation_slope<kind>(from.pre[k]); }
};

// norm(sum), rounded as in norm_forward.
struct Normed {
  const device_bf16* sum;
  int64_t C;
  const float *mean, *rstd;          // mean may be null
  const device_bf16 *weight, *bias;  // bias may be null
  float gain_offset;

  struct Fetched {
    Run sum, weight, bias;
    float mean, rstd;
  };
  __device__ Fetched fetch(int64_t row, int64_t column) const {
    return {Run::load_once(sum + row * C + column), Run::load(weight + column), bias ? Run::load(bias + column) : Run{},
            mean ? mean[row] : 0.0f, rstd[row]};
  }
  __device__ float value(const Fetched& from, int k) const {
    const float normed = norm_value(from.sum[k], from.mean, from.rstd, from.weight[k] + gain_offset, from.bias[k]);
    return to_float(from_float<device_bf16>(normed));
  }
};

struct SwigluProduct {
  const device_bf16* gate_up;
  int64_t C;  // columns of the result; gates are in the first C columns

  struct Fetched {
    Run gate, up;
  };
  __device__ Fetched fetch(int64_t row, int64_t column) const {
    const device_bf16* at = gate_up + row * 2 * C + column;
    return {Run::load_once(at), Run::load_once(at + C)};
  }
  __device__ static float value(const Fetched& from, int k) { return from.gate[k] * sigmoid(from.gate[k]) * from.up[k]; }
};

// ---------------------------------------------------------------------------------------------------------- the kernel

// A second result from the values that a source has fetched: only a transposed FP8 copy, with a known scale.
struct NothingElse {
  static constexpr bool kMakes = false;
};

template <Activation kind>
struct ActivatedToo {
  static constexpr bool kMakes = true;
  const float* scale;
  uint8_t* transposed;

  __device__ static float value(const typename ActivationGrad<kind>::Fetched& from, int k) { return activate<kind>(from.pre[k]); }
};

// One block makes a tile of 128 rows and 64 columns. A thread has 4 rows of 8 columns: adjacent bytes in values, which it
// transposes, four by four, into words of the transposed tile.
constexpr int kTileRows = 128, kTileColumns = 64;
constexpr int kThreads = 256;
constexpr int kRows = 4;                          // per thread
constexpr int kRunsAcross = kTileColumns / kRun;  // threads per row of the tile
constexpr int kRowWords = kTileRows / kRows;      // words per column of the tile
constexpr int kChunk = 16;                        // rows of a column that are stored at once
static_assert(kTileRows == Fp8Copy::kSumRows && kThreads == kRunsAcross * kRowWords && kRunsAcross * kChunk == kTileRows);

struct Destination {
  int64_t N, C;
  const float* scale;
  float* amax;
  uint8_t *values, *transposed;  // may be null
  float* column_sums;            // may be null
};

// Transposes 4x4 bytes.
__device__ void transpose_bytes(const uint32_t (&rows)[4], uint32_t (&columns)[4]) {
  const uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140), high01 = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t low23 = __byte_perm(rows[2], rows[3], 0x5140), high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

// The index of word `word` of a column of the tile in shared memory. Columns 8 apart, which a warp writes at once, are rotated
// against each other, so that they fall into different banks. Four words that are read at once stay adjacent.
__device__ int tile_place(int column, int word) { return column * kRowWords + (word + column / kRun * 4) % kRowWords; }

// Writes a thread's four rows of eight bytes to the tile.
__device__ void put(const uint32_t (&bytes)[kRows][kRun / 4], int across, int down, uint32_t* tile) {
#pragma unroll
  for (int w = 0; w < kRun / 4; ++w) {
    const uint32_t rows[4] = {bytes[0][w], bytes[1][w], bytes[2][w], bytes[3][w]};
    uint32_t columns[4];
    transpose_bytes(rows, columns);
#pragma unroll
    for (int k = 0; k < 4; ++k) tile[tile_place(across * kRun + 4 * w + k, down)] = columns[k];
  }
}

__device__ void store_transposed(const uint32_t* tile, int across, int down, int64_t N, int64_t C, uint8_t* transposed) {
  const int64_t tile_row = int64_t{blockIdx.y} * kTileRows, tile_column = int64_t{blockIdx.x} * kTileColumns;
#pragma unroll
  for (int pass = 0; pass < kTileColumns; pass += kThreads / kRunsAcross) {
    const int tile_c = pass + down;
    const int64_t c = tile_column + tile_c, row = tile_row + across * kChunk;
    if (c < C && row < N)
      *reinterpret_cast<uint4*>(transposed + c * N + row) =
          *reinterpret_cast<const uint4*>(tile + tile_place(tile_c, across * kChunk / kRows));
  }
}

template <class Source, class Else, Fp8Format kFormat, bool kSums>
__global__ void __launch_bounds__(kThreads, 4) quantize_tile(const Source source, const Destination to, const Else other) {
  __shared__ __align__(16) uint32_t tile[kTileColumns * kRowWords];
  __shared__ __align__(16) uint32_t other_tile[Else::kMakes ? kTileColumns * kRowWords : 4];
  __shared__ float sums[kSums ? kThreads / kWarp : 1][kTileColumns];
  const int across = threadIdx.x % kRunsAcross, down = threadIdx.x / kRunsAcross;
  const int64_t tile_row = int64_t{blockIdx.y} * kTileRows, tile_column = int64_t{blockIdx.x} * kTileColumns;
  const int64_t first_row = tile_row + down * kRows, column = tile_column + across * kRun;
  // All of a thread's elements or none, because N and C are multiples of 16.
  const bool inside = first_row < to.N && column < to.C;
  const float scale = *to.scale;
  float other_scale = 0;
  if constexpr (Else::kMakes) other_scale = *other.scale;

  typename Source::Fetched fetched[kRows];
  if (inside) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) fetched[r] = source.fetch(first_row + r, column);
  }
  uint32_t bytes[kRows][kRun / 4] = {}, other_bytes[kRows][kRun / 4] = {};
  float sum[kRun] = {};
  uint32_t largest = 0;
  if (inside) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int w = 0; w < kRun / 4; ++w) {
        float x[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          x[k] = source.value(fetched[r], 4 * w + k);
          largest = max(largest, size_bits(x[k]));
          if constexpr (kSums) sum[4 * w + k] += x[k];
        }
        bytes[r][w] = four_bytes<kFormat>(x[0] * scale, x[1] * scale, x[2] * scale, x[3] * scale);
        if constexpr (Else::kMakes) {
          float y[4];
#pragma unroll
          for (int k = 0; k < 4; ++k) y[k] = other.value(fetched[r], 4 * w + k) * other_scale;
          other_bytes[r][w] = four_bytes<__NV_E4M3>(y[0], y[1], y[2], y[3]);
        }
      }
      if (to.values)
        *reinterpret_cast<uint2*>(to.values + (first_row + r) * to.C + column) = make_uint2(bytes[r][0], bytes[r][1]);
    }
  }
  if (to.transposed) put(bytes, across, down, tile);
  if constexpr (Else::kMakes) put(other_bytes, across, down, other_tile);
  if constexpr (kSums) {
    // Lanes 8 apart have the same columns.
#pragma unroll
    for (int k = 0; k < kRun; ++k) {
      sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], 8);
      sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], 16);
      if (threadIdx.x % kWarp < kRunsAcross) sums[threadIdx.x / kWarp][across * kRun + k] = sum[k];
    }
  }
  raise_amax(largest, to.amax);
  __syncthreads();

  if (to.transposed) store_transposed(tile, across, down, to.N, to.C, to.transposed);
  if constexpr (Else::kMakes) store_transposed(other_tile, across, down, to.N, to.C, other.transposed);
  if constexpr (kSums) {
    const int64_t c = tile_column + threadIdx.x;
    if (threadIdx.x >= kTileColumns || c >= to.C) return;
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < kThreads / kWarp; ++warp) total += sums[warp][threadIdx.x];
    to.column_sums[blockIdx.y * to.C + c] = total;
  }
}

// ------------------------------------------------------------------------------------------------------ current scaling

template <class Source>
__global__ void __launch_bounds__(kThreads) find_amax(const Source source, const Destination to) {
  const int64_t first_row = int64_t{blockIdx.y} * kTileRows + threadIdx.x / kRunsAcross * kRows;
  const int64_t column = int64_t{blockIdx.x} * kTileColumns + threadIdx.x % kRunsAcross * kRun;
  uint32_t largest = 0;
  if (first_row < to.N && column < to.C) {
    typename Source::Fetched fetched[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) fetched[r] = source.fetch(first_row + r, column);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < kRun; ++k) largest = max(largest, size_bits(source.value(fetched[r], k)));
    }
  }
  raise_amax(largest, to.amax);
}

__device__ void set_scale(float amax, float largest, float* scale, float* inverse) {
  const float wanted = __fdiv_rn(largest, amax);
  if (!(amax > 0) || !isfinite(amax) || !isfinite(wanted)) return;
  *scale = wanted;
  *inverse = __fdiv_rn(1.0f, wanted);
}

__global__ void scale_by_amax(const float* amax, float largest, float* scale, float* inverse) {
  set_scale(*amax, largest, scale, inverse);
}

// ------------------------------------------------------------------------------------------------------ scales of steps

// One block per row. The history is shifted from its end, so that nothing is overwritten before it is read.
__global__ void __launch_bounds__(kThreads)
    update_scales(AmaxChoice choice, float largest, const float* amax, float* table, int64_t columns, int64_t length) {
  __shared__ float shared[kThreads / kWarp];
  float *row = table + blockIdx.x * columns, *history = row + UpdateScales::kHistory;
  const float latest = isfinite(amax[blockIdx.x]) ? amax[blockIdx.x] : 0;
  float most = latest;
  for (int64_t end = length; end > 1; end -= kThreads) {
    const int64_t to = end - 1 - threadIdx.x;
    const float moved = to >= 1 ? history[to - 1] : 0;
    __syncthreads();
    if (to >= 1) history[to] = moved;
    most = fmaxf(most, moved);
    __syncthreads();
  }
  most = warp_max(most);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = most;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const float other : shared) most = fmaxf(most, other);
  history[0] = latest;
  set_scale(choice == AmaxChoice::largest ? most : latest, largest, row + UpdateScales::kScale, row + UpdateScales::kInverse);
}

// --------------------------------------------------------------------------------------------------------------- launch

Destination destination_of(const Fp8Copy& fp8) {
  const Shape& shape = fp8.values ? fp8.values.shape : fp8.transposed.shape;
  const Destination to{.N = fp8.values ? shape[0] : shape[1],
                       .C = fp8.values ? shape[1] : shape[0],
                       .scale = data_of<const float>(fp8.scale),
                       .amax = data_of<float>(fp8.amax),
                       .values = data_of<uint8_t>(fp8.values),
                       .transposed = data_of<uint8_t>(fp8.transposed),
                       .column_sums = data_of<float>(fp8.column_sums)};
  CHECK(to.N % kChunk == 0 && to.C % kChunk == 0);
  CHECK(aligned16(to.values) && aligned16(to.transposed));
  return to;
}

template <class Source, class Else = NothingElse>
void make_copies(const Operand& x, const Source& source, cudaStream_t stream, const Else& other = {}) {
  const Fp8Copy& fp8 = x.fp8;
  const Destination to = destination_of(fp8);
  CHECK_EQ(x.count(), to.N * to.C);
  const dim3 grid(static_cast<unsigned>(blocks_for(to.C, kTileColumns)), static_cast<unsigned>(blocks_for(to.N, kTileRows)));
  if (*fp8.scaling == Fp8Scaling::current) {
    CUDA_CHECK(cudaMemsetAsync(to.amax, 0, sizeof(float), stream));
    find_amax<<<grid, kThreads, 0, stream>>>(source, to);
    check_launch("find_amax");
    scale_by_amax<<<1, 1, 0, stream>>>(to.amax, fp8.largest, data_of<float>(fp8.scale), data_of<float>(fp8.inverse));
    check_launch("scale_by_amax");
  }
  const auto launch = [&]<Fp8Format kFormat>(std::integral_constant<Fp8Format, kFormat>) {
    if (to.column_sums)
      quantize_tile<Source, Else, kFormat, true><<<grid, kThreads, 0, stream>>>(source, to, other);
    else
      quantize_tile<Source, Else, kFormat, false><<<grid, kThreads, 0, stream>>>(source, to, other);
    check_launch("quantize_tile");
  };
  if (fp8.dtype() == DType::f8e4m3)
    launch(std::integral_constant<Fp8Format, __NV_E4M3>{});
  else
    launch(std::integral_constant<Fp8Format, __NV_E5M2>{});
}

const device_bf16* matrix(const Tensor& tensor) {
  CHECK(tensor.dtype == DType::bf16 && aligned16(tensor.data));
  return data_of<const device_bf16>(tensor);
}

int64_t width_of(const Operand& x) { return destination_of(x.fp8).C; }

template <class Use>
void with_gelu(Activation activation, Use&& use) {
  CHECK(activation != Activation::none);
  if (activation == Activation::gelu_tanh)
    use(std::integral_constant<Activation, Activation::gelu_tanh>{});
  else
    use(std::integral_constant<Activation, Activation::gelu_erf>{});
}

}  // namespace

void quantize(const Operand& x, cudaStream_t stream) {
  if (x.dtype() == DType::bf16) return make_copies(x, Plain{matrix(x.tensor), width_of(x)}, stream);
  CHECK(x.dtype() == DType::f32 && aligned16(x.tensor.data));
  make_copies(x, PlainF32{data_of<const float>(x.tensor), width_of(x)}, stream);
}

void quantize_activated(Activation activation, Tensor pre, const Operand& out, cudaStream_t stream) {
  with_gelu(activation, [&]<Activation kind>(std::integral_constant<Activation, kind>) {
    make_copies(out, Activated<kind>{matrix(pre), width_of(out)}, stream);
  });
}

void quantize_activation_grad(Activation activation, Tensor pre, const Operand& d, cudaStream_t stream) {
  with_gelu(activation, [&]<Activation kind>(std::integral_constant<Activation, kind>) {
    make_copies(d, ActivationGrad<kind>{matrix(d.tensor), matrix(pre), width_of(d)}, stream);
  });
}

bool can_remake(const Operand& x) {
  return x.wide == Wide::scratch && !x.fp8.values && x.fp8.dtype() == DType::f8e4m3 && *x.fp8.scaling == Fp8Scaling::delayed;
}

void quantize_activation_grad(Activation activation, Tensor pre, const Operand& d, const Operand& x, cudaStream_t stream) {
  CHECK(can_remake(x) && aligned16(x.fp8.transposed.data));
  CHECK_EQ(x.fp8.transposed.shape, Shape({width_of(d), destination_of(d.fp8).N}));
  with_gelu(activation, [&]<Activation kind>(std::integral_constant<Activation, kind>) {
    make_copies(d, ActivationGrad<kind>{matrix(d.tensor), matrix(pre), width_of(d)}, stream,
                ActivatedToo<kind>{data_of<const float>(x.fp8.scale), data_of<uint8_t>(x.fp8.transposed)});
  });
}

void quantize_swiglu(Tensor gate_up, const Operand& out, cudaStream_t stream) {
  make_copies(out, SwigluProduct{matrix(gate_up), width_of(out)}, stream);
}

}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream where, const Quantize& op) { quantize(op.x, stream(where)); }

void CudaBackend::run(Stream where, const QuantizeNorm& op) {
  const int64_t N = op.out.shape()[0], C = op.out.shape()[1];
  CHECK_EQ(op.sum.shape, op.out.shape());
  CHECK(op.rstd.count() == N && op.weight.count() == C);
  const auto optional = [](const Tensor& tensor) { return tensor ? matrix(tensor) : nullptr; };
  make_copies(op.out,
              Normed{.sum = matrix(op.sum),
                     .C = C,
                     .mean = data_of<const float>(op.mean),
                     .rstd = data_of<const float>(op.rstd),
                     .weight = matrix(op.weight),
                     .bias = optional(op.bias),
                     .gain_offset = gain_offset(op.kind)},
              stream(where));
}

void CudaBackend::run(Stream where, const UpdateScales& op) {
  const int64_t rows = op.table.shape[0], columns = op.table.shape[1];
  CHECK_EQ(op.amax.count(), rows);
  CHECK(columns > 2);
  cuda::update_scales<<<narrow<int>(rows), kThreads, 0, stream(where)>>>(op.choice, op.largest, data_of<const float>(op.amax),
                                                                         data_of<float>(op.table), columns, op.history);
  check_launch(UpdateScales::kName);
}

}  // namespace trireme
