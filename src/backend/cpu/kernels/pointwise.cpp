#include "backend/cpu/kernels/pointwise.h"

#include "backend/cpu/kernels/gelu.h"
#include "backend/cpu/kernels/pointwise_chunks.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void gelu_tanh_row(const void* pre, void* out, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) {
    store(static_cast<T*>(out) + i, gelu_tanh(load(static_cast<const T*>(pre) + i, lanes)), lanes);
  });
}

template <class T>
void gelu_erf_row(const void* pre, void* out, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) {
    store(static_cast<T*>(out) + i, gelu_erf(load(static_cast<const T*>(pre) + i, lanes)), lanes);
  });
}

TRIREME_INLINE f32x16 sigmoid(f32x16 z) { return 1.0f / (1.0f + exp(-z)); }

template <class T>
void swiglu_forward(const void* gate_row, const void* up_row, void* out, int64_t width) {
  for_each_chunk(width, [&](int64_t f, auto lanes) {
    const f32x16 gate = load(static_cast<const T*>(gate_row) + f, lanes), up = load(static_cast<const T*>(up_row) + f, lanes);
    store(static_cast<T*>(out) + f, gate * sigmoid(gate) * up, lanes);
  });
}

template <class T>
void swiglu_backward(const void* gate_row, const void* up_row, const void* d_out_row, void* d_gate, void* d_up, int64_t width) {
  for_each_chunk(width, [&](int64_t f, auto lanes) {
    const f32x16 gate = load(static_cast<const T*>(gate_row) + f, lanes), up = load(static_cast<const T*>(up_row) + f, lanes);
    const f32x16 d_out = load(static_cast<const T*>(d_out_row) + f, lanes), s = sigmoid(gate);
    store(static_cast<T*>(d_gate) + f, d_out * up * s * (1.0f + gate * (1.0f - s)), lanes);
    store(static_cast<T*>(d_up) + f, d_out * gate * s, lanes);
  });
}

template <class T>
void from_f32(const float* from, void* to, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) { store(static_cast<T*>(to) + i, load(from + i, lanes), lanes); });
}

template <class T>
void to_f32(const void* from, float* to, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) { store(to + i, load(static_cast<const T*>(from) + i, lanes), lanes); });
}

template <class T>
void accumulate(const void* from, float* to, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) {
    store(to + i, load(to + i, lanes) + load(static_cast<const T*>(from) + i, lanes), lanes);
  });
}

}  // namespace

const PointwiseKernels pointwise_kernels = {
    .gelu_tanh = {gelu_tanh_row<float>, gelu_tanh_row<uint16_t>, gelu_tanh_row<f16>},
    .gelu_erf = {gelu_erf_row<float>, gelu_erf_row<uint16_t>, gelu_erf_row<f16>},
    .swiglu_forward = {swiglu_forward<float>, swiglu_forward<uint16_t>, swiglu_forward<f16>},
    .swiglu_backward = {swiglu_backward<float>, swiglu_backward<uint16_t>, swiglu_backward<f16>},
    .from_f32 = {from_f32<float>, from_f32<uint16_t>, from_f32<f16>},
    .to_f32 = {to_f32<float>, to_f32<uint16_t>, to_f32<f16>},
    .accumulate = {accumulate<float>, accumulate<uint16_t>, accumulate<f16>},
};

}  // namespace trireme::cpu::TRIREME_ISA
