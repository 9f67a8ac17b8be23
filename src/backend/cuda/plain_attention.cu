#include "backend/cuda/attention_inputs.h"
#include "backend/cuda/kernel.cuh"
#include "backend/cuda/plain_attention.h"

namespace trireme::cuda {
namespace {

constexpr int kMostWidth = 256;
constexpr int kPerLane = kMostWidth / kWarp;
constexpr unsigned kAllLanes = 0xffffffffu;

// Heads of packed [B,T,heads,D]: row (b, t) of head h.
template <class T>
struct Heads {
  T* data;
  int64_t time, heads, first, D;

  static Heads of(const HeadsView& view) {
    const Tensor& t = view.packed.tensor;
    return {data_of<T>(t), t.shape[1], t.shape[2], view.first, t.shape[3]};
  }
  __device__ T* row(int64_t b, int64_t t, int64_t h) const { return data + ((b * time + t) * heads + first + h) * D; }
};

template <class T>
__device__ float dot(const T* a, const T* b, int64_t D) {
  float sum = 0;
  for (int64_t d = 0; d < D; ++d) sum += to_float(a[d]) * to_float(b[d]);
  return sum;
}

struct Problem {
  int64_t B, Tq, H, G, D, key_length, first_key;
  bool causal;
  float scale;
  DropoutArguments dropout;
  const int32_t* document_starts;  // [B,Tq], or null

  template <class Op>
  static Problem of(const Op& op) {
    const Tensor& q = op.q.packed.tensor;
    CHECK(q.shape[3] <= kMostWidth);
    return {.B = q.shape[0],
            .Tq = q.shape[1],
            .H = op.q.count,
            .G = op.k.count,
            .D = q.shape[3],
            .key_length = op.key_length,
            .first_key = op.first_key,
            .causal = op.causal == CausalMask::yes,
            .scale = op.scale,
            .dropout = DropoutArguments::of(op.dropout),
            .document_starts = data_of<const int32_t>(op.document_starts)};
  }
  // Query i of sequence b sees the keys first_seen .. end_seen - 1.
  __device__ int64_t first_seen(int64_t b, int64_t i) const {
    return document_starts == nullptr ? 0 : max(int64_t{0}, document_starts[b * Tq + i] - first_key);
  }
  __device__ int64_t end_seen(int64_t i) const { return causal ? min(key_length, i + key_length - Tq + 1) : key_length; }
  __device__ float keep(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (dropout.row_keys == nullptr) return 1;
    const PhiloxBlock bits =
        dropout_block(dropout.seed, dropout.site + static_cast<uint32_t>(h), dropout.row_keys[b * Tq + i], first_key + j);
    return bits[j % 4] >= dropout.threshold ? dropout.scale : 0;
  }
};

// One warp per query: its lanes score 32 keys at a time, then divide the channels of the values.
template <class T>
__global__ void forward_kernel(Problem p, Heads<const T> q, Heads<const T> k, Heads<const T> v, T* out, float* lse) {
  const int64_t task = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (task >= p.B * p.H * p.Tq) return;
  const int64_t i = task % p.Tq, h = task / p.Tq % p.H, b = task / p.Tq / p.H, g = h / (p.H / p.G);
  const int64_t seen = p.end_seen(i);
  float largest = -INFINITY, sum = 0, result[kPerLane] = {};
  for (int64_t first = p.first_seen(b, i); first < seen; first += kWarp) {
    const int64_t j = first + lane;
    const float score = j < seen ? p.scale * dot(q.row(b, i, h), k.row(b, j, g), p.D) : -INFINITY;
    const float before = largest;
    largest = fmaxf(largest, warp_max(score));
    const float shrink = expf(before - largest), weight = j < seen ? expf(score - largest) : 0;
    sum = sum * shrink + warp_sum(weight);
    const float kept = j < seen ? weight * p.keep(b, h, i, j) : 0;
    for (int d = 0; d < kPerLane; ++d) result[d] *= shrink;
    for (int other = 0; other < kWarp && first + other < seen; ++other) {
      const float w = __shfl_sync(kAllLanes, kept, other);
      const T* value = v.row(b, first + other, g);
      for (int d = 0; d < kPerLane && lane + d * kWarp < p.D; ++d) result[d] += w * to_float(value[lane + d * kWarp]);
    }
  }
  T* to = out + ((b * p.Tq + i) * p.H + h) * p.D;
  for (int d = 0; d < kPerLane && lane + d * kWarp < p.D; ++d)
    to[lane + d * kWarp] = from_float<T>(sum > 0 ? result[d] / sum : 0);
  if (lane == 0) lse[(b * p.H + h) * p.Tq + i] = largest + logf(sum);
}

template <class T>
struct Gradients {
  const T *out, *d_out;
  const float* lse;
  Problem p;

  struct Pair {
    float kept;     // the probability after dropout
    float d_score;  // gradient of the scaled score
  };
  __device__ Pair at(const Heads<const T>& q, const Heads<const T>& k, const Heads<const T>& v, int64_t b, int64_t h, int64_t g,
                     int64_t i, int64_t j) const {
    const T* d = d_out + ((b * p.Tq + i) * p.H + h) * p.D;
    const float delta = dot(d, out + ((b * p.Tq + i) * p.H + h) * p.D, p.D);
    const float score = p.scale * dot(q.row(b, i, h), k.row(b, j, g), p.D);
    const float probability = expf(score - lse[(b * p.H + h) * p.Tq + i]), keep = p.keep(b, h, i, j);
    return {probability * keep, probability * (keep * dot(d, v.row(b, j, g), p.D) - delta)};
  }
};

template <class T>
__global__ void query_gradient_kernel(Gradients<T> grad, Heads<const T> q, Heads<const T> k, Heads<const T> v, Heads<T> d_q) {
  const Problem& p = grad.p;
  const int64_t task = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (task >= p.B * p.H * p.Tq) return;
  const int64_t i = task % p.Tq, h = task / p.Tq % p.H, b = task / p.Tq / p.H, g = h / (p.H / p.G);
  const int64_t seen = p.end_seen(i);
  float result[kPerLane] = {};
  for (int64_t first = p.first_seen(b, i); first < seen; first += kWarp) {
    const float mine = first + lane < seen ? grad.at(q, k, v, b, h, g, i, first + lane).d_score : 0;
    for (int other = 0; other < kWarp && first + other < seen; ++other) {
      const float w = __shfl_sync(kAllLanes, mine, other);
      const T* key = k.row(b, first + other, g);
      for (int d = 0; d < kPerLane && lane + d * kWarp < p.D; ++d) result[d] += w * to_float(key[lane + d * kWarp]);
    }
  }
  T* to = d_q.row(b, i, h);
  for (int d = 0; d < kPerLane && lane + d * kWarp < p.D; ++d) to[lane + d * kWarp] = from_float<T>(p.scale * result[d]);
}

template <class T>
__global__ void key_gradient_kernel(Gradients<T> grad, Heads<const T> q, Heads<const T> k, Heads<const T> v, Heads<T> d_k,
                                    Heads<T> d_v) {
  const Problem& p = grad.p;
  const int64_t task = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (task >= p.B * p.G * k.time) return;
  const int64_t j = task % k.time, g = task / k.time % p.G, b = task / k.time / p.G;
  float key[kPerLane] = {}, value[kPerLane] = {};
  const int64_t first_query = p.causal ? max(int64_t{0}, j - (p.key_length - p.Tq)) : 0;
  for (int64_t h = g * (p.H / p.G); j < p.key_length && h < (g + 1) * (p.H / p.G); ++h)
    // first_seen does not decrease, so later queries do not see key j either.
    for (int64_t first = first_query; first < p.Tq && p.first_seen(b, first) <= j; first += kWarp) {
      typename Gradients<T>::Pair mine{};
      if (first + lane < p.Tq && p.first_seen(b, first + lane) <= j) mine = grad.at(q, k, v, b, h, g, first + lane, j);
      for (int other = 0; other < kWarp && first + other < p.Tq; ++other) {
        const float kept = __shfl_sync(kAllLanes, mine.kept, other), d_score = __shfl_sync(kAllLanes, mine.d_score, other);
        const T* query = q.row(b, first + other, h);
        const T* d = grad.d_out + ((b * p.Tq + first + other) * p.H + h) * p.D;
        for (int c = 0; c < kPerLane && lane + c * kWarp < p.D; ++c) {
          key[c] += d_score * to_float(query[lane + c * kWarp]);
          value[c] += kept * to_float(d[lane + c * kWarp]);
        }
      }
    }
  T *to_key = d_k.row(b, j, g), *to_value = d_v.row(b, j, g);
  for (int c = 0; c < kPerLane && lane + c * kWarp < p.D; ++c) {
    to_key[lane + c * kWarp] = from_float<T>(p.scale * key[c]);
    to_value[lane + c * kWarp] = from_float<T>(value[c]);
  }
}

__global__ void seed_kernel(DropoutArguments dropout, int64_t* seeds) {
  seeds[0] = static_cast<int64_t>(dropout.seed ^ (uint64_t{dropout.site} << 32));
  seeds[1] = dropout.row_keys[0] * 4;  // a multiple of the numbers per draw
}

struct DocumentBias {
  const int32_t* starts;
  int64_t keys;
  device_bf16* bias;

  template <int W>
  __device__ void operator()(int64_t at) const {
    const int64_t start = starts[at / keys], key = at % keys;
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = key + i >= start ? 0 : -1e30f;
    Pack<device_bf16, W>::of(values).store(bias + at);
  }
};

// One warp per row of a head.
template <class T>
__global__ void merge_kernel(int64_t rows, int64_t time, int64_t H, int64_t D, const T* part_out, const float* part_lse, T* out,
                             float* lse) {
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;  // index into [B,T,H]
  const int lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  const int64_t h = row % H, t = row / H % time, b = row / H / time, at = (b * H + h) * time + t;
  const float here = lse[at], there = part_lse[at], larger = fmaxf(here, there);
  const float joined = larger + log1pf(expf(fminf(here, there) - larger));
  const float keep = expf(here - joined), add = expf(there - joined);
  for (int64_t d = row * D + lane; d < (row + 1) * D; d += kWarp)
    out[d] = from_float<T>(keep * to_float(out[d]) + add * to_float(part_out[d]));
  __syncwarp();
  if (lane == 0) lse[at] = joined;
}

constexpr int kThreads = 128;
int blocks_of_warps(int64_t tasks) { return blocks_for(tasks * kWarp, kThreads); }

}  // namespace

void plain_attention_forward(const AttentionForward& op, cudaStream_t stream) {
  const Problem p = Problem::of(op);
  with_act(op.out.dtype(), [&]<class T>(T) {
    forward_kernel<T><<<blocks_of_warps(p.B * p.H * p.Tq), kThreads, 0, stream>>>(
        p, Heads<const T>::of(op.q), Heads<const T>::of(op.k), Heads<const T>::of(op.v), data_of<T>(op.out.tensor),
        data_of<float>(op.lse));
    check_launch("plain_attention_forward");
  });
}

void plain_attention_backward(const AttentionBackward& op, cudaStream_t stream) {
  const Problem p = Problem::of(op);
  with_act(op.out.dtype, [&]<class T>(T) {
    const auto q = Heads<const T>::of(op.q), k = Heads<const T>::of(op.k), v = Heads<const T>::of(op.v);
    const Gradients<T> grad{data_of<const T>(op.out), data_of<const T>(op.d_out), data_of<const float>(op.lse), p};
    query_gradient_kernel<T><<<blocks_of_warps(p.B * p.H * p.Tq), kThreads, 0, stream>>>(grad, q, k, v, Heads<T>::of(op.d_q));
    check_launch("query_gradient_kernel");
    key_gradient_kernel<T>
        <<<blocks_of_warps(p.B * p.G * k.time), kThreads, 0, stream>>>(grad, q, k, v, Heads<T>::of(op.d_k), Heads<T>::of(op.d_v));
    check_launch("key_gradient_kernel");
  });
}

void write_attention_seed(const Dropout& dropout, int64_t* seeds, cudaStream_t stream) {
  seed_kernel<<<1, 1, 0, stream>>>(DropoutArguments::of(dropout), seeds);
  check_launch("seed_kernel");
}

void write_document_bias(const Tensor& document_starts, int64_t T, void* bias, cudaStream_t stream) {
  const DocumentBias body{data_of<const int32_t>(document_starts), T, static_cast<device_bf16*>(bias)};
  for_each_pack<Pack<device_bf16>::kSize>(stream, document_starts.count() * T, body, "document_bias");
}

}  // namespace trireme::cuda

namespace trireme {

using namespace cuda;

void CudaBackend::run(Stream stream, const MergeAttention& op) {
  const Shape& shape = op.out.shape;
  const int64_t rows = shape[0] * shape[1] * shape[2];
  with_act(op.out.dtype, [&]<class T>(T) {
    merge_kernel<T><<<blocks_of_warps(rows), kThreads, 0, this->stream(stream)>>>(
        rows, shape[1], shape[2], shape[3], data_of<const T>(op.part_out), data_of<const float>(op.part_lse), data_of<T>(op.out),
        data_of<float>(op.lse));
    check_launch(MergeAttention::kName);
  });
}

}  // namespace trireme
