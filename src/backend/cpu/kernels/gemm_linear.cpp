#include "backend/cpu/kernels/gemm_linear.h"

#include "backend/cpu/kernels/gelu.h"
#include "backend/cpu/kernels/gemm_vector.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The next 16 elements, or the remaining `left` < 16.
template <class T>
TRIREME_INLINE f32x16 load_next(const T* from, int64_t left) {
  return left >= kLanes ? load(from) : load_part(from, left);
}
template <class T>
TRIREME_INLINE void store_next(T* to, f32x16 v, int64_t left) {
  left >= kLanes ? store(to, v) : store_part(to, v, left);
}

// The epilogue of 16 sums in one row: returns the value for `out`, and with an activation that of `pre`.
template <class T, Gelu gelu>
struct Activate {
  const T* bias;
  const T* pre_type = nullptr;  // only selects the overload of rounded_to

  TRIREME_INLINE f32x16 pre(f32x16 sum, int64_t column, int64_t left) const {
    if (bias != nullptr) sum = sum + load_next(bias + column, left);
    return gelu == Gelu::none ? sum : rounded_to(pre_type, sum);
  }
  TRIREME_INLINE static f32x16 out(f32x16 z) { return gelu == Gelu::none ? z : gelu == Gelu::tanh ? gelu_tanh(z) : gelu_erf(z); }
};

constexpr int64_t kLine = 2 * kLanes;  // elements that are streamed together

template <class T, Gelu gelu>
void activate(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride) {
  const Activate<T, gelu> step{static_cast<const T*>(operands.bias)};
  for (int64_t row = 0; row < place.rows; ++row, sums += stride) {
    const int64_t first = (place.row + row) * operands.columns + place.column;
    T* pre = static_cast<T*>(operands.pre) + (gelu == Gelu::none ? 0 : first);
    T* out = static_cast<T*>(operands.out) + first;
    int64_t c = 0;
    for (; operands.streams && c + kLine <= place.columns; c += kLine) {
      const f32x16 lower = step.pre(load(sums + c), place.column + c, kLanes);
      const f32x16 upper = step.pre(load(sums + c + kLanes), place.column + c + kLanes, kLanes);
      if constexpr (gelu != Gelu::none) stream_line(pre + c, lower, upper);
      stream_line(out + c, step.out(lower), step.out(upper));
    }
    for (; c < place.columns; c += kLanes) {
      const int64_t left = place.columns - c;
      const f32x16 z = step.pre(load(sums + c), place.column + c, left);
      if constexpr (gelu != Gelu::none) store_next(pre + c, z, left);
      store_next(out + c, step.out(z), left);
    }
  }
}

template <class T, Gelu gelu>
void derive(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride) {
  const auto derived = [](f32x16 sum, f32x16 z) {
    return sum * (gelu == Gelu::tanh ? gelu_tanh_derivative(z) : gelu_erf_derivative(z));
  };
  for (int64_t row = 0; row < place.rows; ++row, sums += stride) {
    const int64_t first = (place.row + row) * operands.columns + place.column;
    const T* pre = static_cast<const T*>(operands.pre) + first;
    T* out = static_cast<T*>(operands.out) + first;
    int64_t c = 0;
    for (; operands.streams && c + kLine <= place.columns; c += kLine)
      stream_line(out + c, derived(load(sums + c), load(pre + c)), derived(load(sums + c + kLanes), load(pre + c + kLanes)));
    for (; c < place.columns; c += kLanes) {
      const int64_t left = place.columns - c;
      store_next(out + c, derived(load(sums + c), load_next(pre + c, left)), left);
    }
  }
}

void add(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride) {
  for (int64_t row = 0; row < place.rows; ++row, sums += stride) {
    float* out = static_cast<float*>(operands.out) + (place.row + row) * operands.columns + place.column;
    for (int64_t c = 0; c < place.columns; c += kLanes) {
      const int64_t left = place.columns - c;
      store_next(out + c, load_next(out + c, left) + load(sums + c), left);
    }
  }
}

template <class T>
void finish_as(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride) {
  const bool deriving = operands.finish == Finish::derive;
  switch (operands.gelu) {
    case Gelu::none:
      return activate<T, Gelu::none>(operands, place, sums, stride);
    case Gelu::tanh:
      return (deriving ? derive<T, Gelu::tanh> : activate<T, Gelu::tanh>)(operands, place, sums, stride);
    case Gelu::erf:
      return (deriving ? derive<T, Gelu::erf> : activate<T, Gelu::erf>)(operands, place, sums, stride);
  }
}

void finish(const FinishOperands& operands, const TilePlace& place, const float* sums, int64_t stride) {
  if (operands.finish == Finish::add) return add(operands, place, sums, stride);
  switch (operands.element) {
    case Element::f32:
      return finish_as<float>(operands, place, sums, stride);
    case Element::bf16:
      return finish_as<uint16_t>(operands, place, sums, stride);
    case Element::f16:
      return finish_as<f16>(operands, place, sums, stride);
  }
}

TRIREME_INLINE float sum_of_lanes(Register v) {
  float x[kRegisterLanes];
  store_register(x, v);
  for (int width = kRegisterLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) x[i] += x[i + width];
  return x[0];
}

// Rows x Columns dot products at once.
template <int Rows, int Columns, class T>
TRIREME_INLINE void dot_products(const T* a, const T* b, int64_t k, float* sums, int64_t stride) {
  Register partial[Rows][Columns] = {};
  int64_t i = 0;
  for (; i + kRegisterLanes <= k; i += kRegisterLanes) {
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      const Register y = load_register(b + c * k + i);
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) partial[r][c] += load_register(a + r * k + i) * y;
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) {
      float sum = sum_of_lanes(partial[r][c]);
      for (int64_t rest = i; rest < k; ++rest) sum += widen_element(a[r * k + rest]) * widen_element(b[c * k + rest]);
      sums[r * stride + c] = sum;
    }
}

template <int Rows, class T>
void multiply_rows(const T* a, const T* b, int64_t columns, int64_t k, float* sums, int64_t stride) {
  int64_t c = 0;
  for (; c + 4 <= columns; c += 4) dot_products<Rows, 4>(a, b + c * k, k, sums + c, stride);
  for (; c < columns; ++c) dot_products<Rows, 1>(a, b + c * k, k, sums + c, stride);
}

template <class T>
void multiply_few_of(const T* a, const T* b, int64_t rows, int64_t columns, int64_t k, float* sums, int64_t stride) {
  static_assert(LinearKernel::kFewRows == 4);
  switch (rows) {
    case 1:
      return multiply_rows<1>(a, b, columns, k, sums, stride);
    case 2:
      return multiply_rows<2>(a, b, columns, k, sums, stride);
    case 3:
      return multiply_rows<3>(a, b, columns, k, sums, stride);
    default:
      return multiply_rows<4>(a, b, columns, k, sums, stride);
  }
}

void multiply_few(Element element, const void* a, const void* b, int64_t rows, int64_t columns, int64_t k, float* sums,
                  int64_t stride) {
  const auto multiply = [&]<class T>(const T*) {
    multiply_few_of(static_cast<const T*>(a), static_cast<const T*>(b), rows, columns, k, sums, stride);
  };
  switch (element) {
    case Element::f32:
      return multiply(static_cast<const float*>(nullptr));
    case Element::bf16:
      return multiply(static_cast<const uint16_t*>(nullptr));
    case Element::f16:
      return multiply(static_cast<const f16*>(nullptr));
  }
}

}  // namespace

const LinearKernel kLinearKernel = {.finish = finish, .end_stream = [] { end_stream(); }, .multiply_few = multiply_few};

}  // namespace trireme::cpu::TRIREME_ISA
