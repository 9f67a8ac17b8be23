// Embedding and its gradient. The gradient sums rows by token. Positions are sorted by token, stably, and blocks sum along the
// sorted order. So rows are added in the order of n, and no two threads add to the same element.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/aside.h"
#include "backend/cuda/kernel.cuh"

namespace trireme {
namespace cuda {
namespace {

template <class T, bool kDropout>
struct Embed {
  int64_t first_token, rows, C;
  const int32_t *tokens, *positions;
  const T *word, *position;  // position may be null
  DropoutArguments dropout;
  T* out;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / C, column = i % C, token = tokens[n] - first_token;
    Pack<T, W> from_word, from_position, result;
    if (token >= 0 && token < rows) from_word = Pack<T, W>::load(word + token * C + column);
    if (position) from_position = Pack<T, W>::load(position + positions[n] * C + column);
    float factors[W];
    if constexpr (kDropout) dropout.factors(n, column, factors);
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float sum = from_word[k] + from_position[k];
      result.set(k, kDropout ? sum * factors[k] : sum);
    }
    result.store(out + i);
  }
};

// ------------------------------------------------------------------------------------------------------------ gradient

// Keys are rows of the table. Tokens outside of it get the key after the last row and are skipped.
__global__ void make_keys(int64_t N, int64_t first, int64_t rows, const int32_t* indices, uint32_t* keys, uint32_t* places) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  const int64_t row = indices[n] - first;
  keys[n] = static_cast<uint32_t>(row >= 0 && row < rows ? row : rows);
  places[n] = static_cast<uint32_t>(n);
}

// The sorted positions are split into windows, one per block. Windows are small enough that several blocks share a frequent
// token, and that few positions keep the device busy too. A run of equal keys within one window is added to the table at once. Of
// a run across windows each window stores a partial sum: in `heads` for a run that began in an earlier window, in `tails` for a
// run that continues in the next one. join_windows adds them in order.
constexpr int kMostWindow = 128;
constexpr int kBatch = 8;  // rows that are loaded at once
constexpr int kMostColumnThreads = 256;

int window_of(int64_t N, int multiprocessors) {
  return static_cast<int>(std::clamp<int64_t>(round_up(N / multiprocessors, kBatch), 2 * kBatch, kMostWindow));
}

template <class T>
struct GradientArguments {
  int64_t N, C, rows;
  int window;
  const uint32_t *keys, *places;  // [N], sorted by key
  DropoutArguments dropout;
  const T* d_out;        // [N,C]
  float *heads, *tails;  // [windows, C]
  float* table;          // [rows, C]
};

template <int W>
__device__ void add_to(float* at, const float (&values)[W]) {
  auto pack = Pack<float, W>::load(at);
#pragma unroll
  for (int k = 0; k < W; ++k) pack.set(k, pack[k] + values[k]);
  pack.store(at);
}

template <int W>
__device__ void write_to(float* at, const float (&values)[W]) {
  Pack<float, W> pack;
#pragma unroll
  for (int k = 0; k < W; ++k) pack.set(k, values[k]);
  pack.store(at);
}

template <class T, int W, bool kDropout>
__global__ void __launch_bounds__(kMostColumnThreads) sum_windows(const GradientArguments<T> a) {
  __shared__ uint32_t keys[kMostWindow + 2], places[kMostWindow];  // keys: including the neighbours of the window
  const int64_t begin = int64_t{blockIdx.x} * a.window;
  const int count = static_cast<int>(min(int64_t{a.window}, a.N - begin));
  const auto nothing = static_cast<uint32_t>(a.rows);
  for (int i = threadIdx.x; i < count + 2; i += blockDim.x) {
    const int64_t at = begin + i - 1;
    keys[i] = at >= 0 && at < a.N ? a.keys[at] : nothing;
    if (i < count) places[i] = a.places[begin + i];
  }
  __syncthreads();
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  if (column >= a.C) return;

  float sum[W] = {};
  bool began_here = keys[1] != keys[0];
  for (int batch = 0; batch < count && keys[batch + 1] != nothing; batch += kBatch) {
    Pack<T, W> rows[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (batch + j < count) rows[j] = Pack<T, W>::load_once(a.d_out + places[batch + j] * a.C + column);
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      const int i = batch + j;
      if (i >= count) break;
      float factors[W];
      if constexpr (kDropout) a.dropout.factors(places[i], column, factors);
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] += kDropout ? rows[j][k] * factors[k] : rows[j][k];
      const uint32_t key = keys[i + 1];
      const bool goes_on = keys[i + 2] == key;
      if (goes_on && i + 1 < count) continue;
      if (key != nothing) {
        if (!began_here)
          write_to(a.heads + blockIdx.x * a.C + column, sum);
        else if (goes_on)
          write_to(a.tails + blockIdx.x * a.C + column, sum);
        else
          add_to(a.table + key * a.C + column, sum);
      }
      began_here = true;
#pragma unroll
      for (int k = 0; k < W; ++k) sum[k] = 0;
    }
  }
}

// The block of the window in which a long run begins adds its partial sums.
template <class T, int W>
__global__ void __launch_bounds__(kMostColumnThreads) join_windows(const GradientArguments<T> a) {
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * W;
  const int64_t begin = int64_t{blockIdx.x} * a.window, end = begin + a.window;
  if (column >= a.C || end >= a.N) return;
  const uint32_t key = a.keys[end];
  const bool goes_on = a.keys[end - 1] == key, began_earlier = begin > 0 && a.keys[begin - 1] == key;
  if (key == a.rows || !goes_on || began_earlier) return;
  float sum[W];
  const auto tail = Pack<float, W>::load(a.tails + blockIdx.x * a.C + column);
#pragma unroll
  for (int k = 0; k < W; ++k) sum[k] = tail[k];
  for (int64_t window = blockIdx.x + 1;; ++window) {
    const auto head = Pack<float, W>::load(a.heads + window * a.C + column);
#pragma unroll
    for (int k = 0; k < W; ++k) sum[k] += head[k];
    const int64_t next = (window + 1) * a.window;
    if (next >= a.N || a.keys[next] != key) break;
  }
  add_to(a.table + key * a.C + column, sum);
}

// The scratch memory of one sort and of the sums along it.
struct Scratch {
  int window;
  uint32_t *keys, *places, *sorted_keys, *sorted_places;  // [N]
  float *heads, *tails;                                   // [windows, C]
  void* sort;
  size_t sort_bytes;
  int64_t bytes = 0;  // of all arrays

  Scratch(void* memory, int64_t N, int64_t C, int multiprocessors) : window(window_of(N, multiprocessors)) {
    auto* base = static_cast<char*>(memory);
    const auto take = [&](int64_t size) {
      char* const taken = base == nullptr ? nullptr : base + bytes;
      bytes += round_up(size, Arena::kAlignment);
      return taken;
    };
    const int64_t indices = N * size_of(DType::f32), sums = ceil_div(N, window) * C * size_of(DType::f32);
    for (uint32_t** list : {&keys, &places, &sorted_keys, &sorted_places}) *list = reinterpret_cast<uint32_t*>(take(indices));
    for (float** list : {&heads, &tails}) *list = reinterpret_cast<float*>(take(sums));
    sort_bytes = 0;
    CUDA_CHECK(run_sort(nullptr, sort_bytes, N, 32, nullptr));
    sort = take(static_cast<int64_t>(sort_bytes));
  }
  cudaError_t run_sort(void* temporary, size_t& size, int64_t N, int bits, cudaStream_t stream) const {
    return cub::DeviceRadixSort::SortPairs(temporary, size, keys, sorted_keys, places, sorted_places, narrow<int>(N), 0, bits,
                                           stream);
  }
};

// table[indices[n] - first] += dropout(d_out[n]) for all n in order.
template <class T>
void add_rows(cudaStream_t stream, const EmbeddingBackward& op, const Tensor& indices, int64_t first, const Tensor& table,
              Scratch scratch) {
  const int64_t N = op.d_out.shape[0], C = op.d_out.shape[1], rows = table.shape[0];
  make_keys<<<blocks_for(N, 256), 256, 0, stream>>>(N, first, rows, data_of<const int32_t>(indices), scratch.keys,
                                                    scratch.places);
  check_launch("make_keys");
  // Sorts only by the bits that keys have, because the cost is proportional to the number of passes.
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(rows)));
  CUDA_CHECK(scratch.run_sort(scratch.sort, scratch.sort_bytes, N, bits, stream));
  const GradientArguments<T> arguments{.N = N,
                                       .C = C,
                                       .rows = rows,
                                       .window = scratch.window,
                                       .keys = scratch.sorted_keys,
                                       .places = scratch.sorted_places,
                                       .dropout = DropoutArguments::of(op.dropout),
                                       .d_out = data_of<T>(op.d_out),
                                       .heads = scratch.heads,
                                       .tails = scratch.tails,
                                       .table = data_of<float>(table)};
  with_width<T>(C, {op.d_out.data, table.data}, [&]<int W>(std::integral_constant<int, W>) {
    const int64_t packs = C / W;
    const int threads = narrow<int>(std::min<int64_t>(kMostColumnThreads, round_up(packs, kWarp)));
    const dim3 grid(static_cast<unsigned>(blocks_for(N, scratch.window)), static_cast<unsigned>(blocks_for(packs, threads)));
    if (op.dropout.active())
      sum_windows<T, W, true><<<grid, threads, 0, stream>>>(arguments);
    else
      sum_windows<T, W, false><<<grid, threads, 0, stream>>>(arguments);
    check_launch("sum_windows");
    join_windows<T, W><<<grid, threads, 0, stream>>>(arguments);
    check_launch("join_windows");
  });
}

}  // namespace
}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const EmbeddingForward& op) {
  const int64_t C = op.out.shape[1];
  CHECK_EQ(op.tokens.count(), op.out.shape[0]);
  CHECK_EQ(op.word.shape[1], C);
  with_act(op.out.dtype, [&]<class T>(T) {
    with_width<T>(C, {op.word.data, op.position.data, op.out.data}, [&]<int W>(std::integral_constant<int, W>) {
      const auto launch = [&]<bool kDropout>(std::bool_constant<kDropout>) {
        const Embed<T, kDropout> body{.first_token = op.first_token,
                                      .rows = op.word.shape[0],
                                      .C = C,
                                      .tokens = data_of<const int32_t>(op.tokens),
                                      .positions = data_of<const int32_t>(op.positions),
                                      .word = data_of<T>(op.word),
                                      .position = data_of<T>(op.position),
                                      .dropout = DropoutArguments::of(op.dropout),
                                      .out = data_of<T>(op.out)};
        for_each_pack<W>(this->stream(stream), op.out.count(), body, EmbeddingForward::kName);
      };
      if (op.dropout.active())
        launch(std::true_type{});
      else
        launch(std::false_type{});
    });
  });
}

int64_t CudaBackend::scratch_bytes(const EmbeddingBackward& op) const {
  const int64_t one = Scratch(nullptr, op.d_out.shape[0], op.d_out.shape[1], multiprocessors_).bytes;
  return op.d_position ? 2 * one : one;
}

void CudaBackend::run(Stream stream, const EmbeddingBackward& op) {
  const int64_t N = op.d_out.shape[0], C = op.d_out.shape[1];
  CHECK_EQ(op.tokens.count(), N);
  CHECK_EQ(op.d_word.shape[1], C);
  CHECK(op.d_word.dtype == DType::f32);
  if (op.d_out.count() == 0) return;
  auto* memory = static_cast<char*>(scratch(scratch_bytes(op)));
  const Scratch for_words(memory, N, C, multiprocessors_);
  with_act(op.d_out.dtype, [&]<class T>(T) {
    const auto add_words = [&](cudaStream_t where) { add_rows<T>(where, op, op.tokens, op.first_token, op.d_word, for_words); };
    if (!op.d_position) return add_words(this->stream(stream));
    const Scratch for_positions(memory + for_words.bytes, N, C, multiprocessors_);
    aside_->run(this->stream(stream), add_words,
                [&](cudaStream_t where) { add_rows<T>(where, op, op.positions, 0, op.d_position, for_positions); });
  });
}

}  // namespace trireme
