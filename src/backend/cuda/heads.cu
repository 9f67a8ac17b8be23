// Heads of packed tensors: rotary embedding, and copies into a cache.
#include <algorithm>
#include <numbers>

#include "backend/cuda/kernel.cuh"

namespace trireme {
namespace cuda {
namespace {

constexpr int kMostPairs = 256;  // heads up to 512 wide; their frequencies are passed as a kernel argument

template <class T>
struct RotaryArguments {
  T* heads;            // the first head of row 0
  int64_t row_stride;  // of a row [*,D]
  int count, D, half;  // heads, their width, pairs per head
  float sign;          // of the angle
  const int32_t* positions;
  double turns_per_position[kMostPairs];
};

// One block rotates one row [heads,D] and computes its cosines and sines once for all heads. Angles are reduced in double,
// because a far position times a high frequency has more digits than a float; the remainder after whole turns is small.
template <class T, int W>
__global__ void rotate(const __grid_constant__ RotaryArguments<T> a) {
  __shared__ float cosines[kMostPairs], sines[kMostPairs];
  const double position = a.positions[blockIdx.x];
  for (int i = threadIdx.x; i < a.half; i += blockDim.x) {
    const double turns = position * a.turns_per_position[i];
    float sine, cosine;
    sincospif(2 * static_cast<float>(turns - rint(turns)), &sine, &cosine);
    cosines[i] = cosine;
    sines[i] = sine * a.sign;
  }
  __syncthreads();
  T* row = a.heads + blockIdx.x * a.row_stride;
  const int packs = a.half / W;  // per head
  for (int pack = threadIdx.x; pack < packs * a.count; pack += blockDim.x) {
    const int head = pack / packs, first = pack % packs * W;
    T* at = row + head * a.D + first;
    const Pack<T, W> x = Pack<T, W>::load(at), y = Pack<T, W>::load(at + a.half);
    Pack<T, W> turned_x, turned_y;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const float cosine = cosines[first + k], sine = sines[first + k];
      turned_x.set(k, x[k] * cosine - y[k] * sine);
      turned_y.set(k, y[k] * cosine + x[k] * sine);
    }
    turned_x.store(at);
    turned_y.store(at + a.half);
  }
}

// Copies `width` elements of row n = b T + t of the source to row b to_T + to_position + t.
template <class T>
struct CopyRows {
  const T* from;
  T* to;
  int64_t width, from_stride, to_stride, T_from, T_to, to_position;

  template <int W>
  __device__ void operator()(int64_t i) const {
    const int64_t n = i / width, column = i % width, b = n / T_from, t = n % T_from;
    Pack<T, W>::load(from + n * from_stride + column).store(to + (b * T_to + to_position + t) * to_stride + column);
  }
};

template <class T>
T* first_head(const HeadsView& view) {
  CHECK_EQ(view.packed.shape().rank(), 4);
  CHECK(view.first >= 0 && view.first + view.count <= view.packed.shape()[2]);
  return data_of<T>(view.packed.tensor) + view.first * view.packed.shape()[3];
}

}  // namespace
}  // namespace cuda

using namespace cuda;

void CudaBackend::run(Stream stream, const Rotary& op) {
  const Shape& shape = op.heads.packed.shape();  // [B,T,*,D]
  const int64_t N = shape[0] * shape[1], D = shape[3], half = div_exact(op.dims, 2);
  CHECK_EQ(op.positions.count(), N);
  CHECK(op.dims >= 0 && op.dims <= D && half <= kMostPairs);
  if (N * op.heads.count * half == 0) return fill_copies(stream, op.heads.packed);
  with_act(op.heads.packed.dtype(), [&]<class T>(T) {
    RotaryArguments<T> arguments{.heads = first_head<T>(op.heads),
                                 .row_stride = shape[2] * D,
                                 .count = narrow<int>(op.heads.count),
                                 .D = narrow<int>(D),
                                 .half = narrow<int>(half),
                                 .sign = op.direction == RotaryDirection::forward ? 1.0f : -1.0f,
                                 .positions = data_of<const int32_t>(op.positions),
                                 .turns_per_position = {}};
    for (int64_t i = 0; i < half; ++i)
      arguments.turns_per_position[i] = rotary_frequency(op.base, i, op.dims, op.scaling) / (2 * std::numbers::pi);
    // A pack must not straddle the two halves of a head, and D must keep the next head aligned.
    const auto launch = [&]<int W>(std::integral_constant<int, W>) {
      const int64_t packs = op.heads.count * half / W;
      const int threads = narrow<int>(std::min<int64_t>(256, round_up(packs, kWarp)));
      rotate<T, W><<<narrow<int>(N), threads, 0, this->stream(stream)>>>(arguments);
      check_launch(Rotary::kName);
    };
    if (D % Pack<T>::kSize == 0)
      with_width<T>(half, {arguments.heads}, launch);
    else
      launch(std::integral_constant<int, 1>{});
  });
  fill_copies(stream, op.heads.packed);
}

void CudaBackend::run(Stream stream, const CopyHeads& op) {
  const Shape &from = op.from.packed.shape(), &to = op.to.packed.shape();  // [B,T,*,D]
  const int64_t B = from[0], T_from = from[1], D = from[3], width = op.from.count * D;
  CHECK(op.from.packed.dtype() == op.to.packed.dtype());
  CHECK_EQ(op.from.count, op.to.count);
  CHECK_EQ(to[0], B);
  CHECK_EQ(to[3], D);
  CHECK(op.to_position >= 0 && op.to_position + T_from <= to[1]);
  with_act(op.from.packed.dtype(), [&]<class T>(T) {
    const CopyRows<T> body{.from = first_head<T>(op.from),
                           .to = first_head<T>(op.to),
                           .width = width,
                           .from_stride = from[2] * D,
                           .to_stride = to[2] * D,
                           .T_from = T_from,
                           .T_to = to[1],
                           .to_position = op.to_position};
    with_width<T>(D, {body.from, body.to}, [&]<int W>(std::integral_constant<int, W>) {
      for_each_pack<W>(this->stream(stream), B * T_from * width, body, CopyHeads::kName);
    });
  });
}

}  // namespace trireme
