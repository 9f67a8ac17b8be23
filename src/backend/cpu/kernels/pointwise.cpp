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

template <class From, class To>
void convert(const From* from, To* to, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
}

template <class T>
void accumulate(const void* from, float* to, int64_t count) {
  for_each_chunk(count, [&](int64_t i, auto lanes) {
    store(to + i, load(to + i, lanes) + load(static_cast<const T*>(from) + i, lanes), lanes);
  });
}

}  // namespace

const PointwiseKernels pointwise_kernels = {
    .gelu_tanh = {gelu_tanh_row<float>, gelu_tanh_row<uint16_t>},
    .gelu_erf = {gelu_erf_row<float>, gelu_erf_row<uint16_t>},
    .swiglu_forward = {swiglu_forward<float>, swiglu_forward<uint16_t>},
    .swiglu_backward = {swiglu_backward<float>, swiglu_backward<uint16_t>},
    .to_bf16 = convert<float, uint16_t>,
    .to_f32 = convert<uint16_t, float>,
    .accumulate = {accumulate<float>, accumulate<uint16_t>},
};

}  // namespace trireme::cpu::TRIREME_ISA
