#include "backend/cpu/kernels/embedding.h"

#include "backend/cpu/kernels/pointwise_chunks.h"
#include "backend/cpu/kernels/pointwise_dropout.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// The row of the token of row n in this part of the table; -1: in another part.
template <class Arguments>
TRIREME_INLINE int64_t token_here(const Arguments& op, int64_t n) {
  const int64_t token = op.tokens[n] - op.first_token;
  return token >= 0 && token < op.token_count ? token : -1;
}

template <class T>
void forward(const EmbeddingForwardArguments& op, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    const int64_t token = token_here(op, n);
    const T* word = token < 0 ? nullptr : static_cast<const T*>(op.word) + token * op.width;
    const T* position = op.position == nullptr ? nullptr : static_cast<const T*>(op.position) + op.positions[n] * op.width;
    T* out = static_cast<T*>(op.out) + n * op.width;
    RowDropout dropout(op.dropout, n);
    for_each_chunk(op.width, [&](int64_t c, auto lanes) {
      f32x16 value = word == nullptr ? f32x16{} : load(word + c, lanes);
      if (position != nullptr) value += load(position + c, lanes);
      store(out + c, dropout.apply(value, c), lanes);
    });
  }
}

template <class T>
void backward(const EmbeddingBackwardArguments& op, int64_t begin, int64_t end) {
  for (int64_t n = 0; n < op.rows; ++n) {
    const T* d_out = static_cast<const T*>(op.d_out) + n * op.width;
    const int64_t token = token_here(op, n);
    float* d_word = token < 0 ? nullptr : op.d_word + token * op.width;
    float* d_position = op.d_position == nullptr ? nullptr : op.d_position + op.positions[n] * op.width;
    RowDropout dropout(op.dropout, n);
    for_each_chunk(begin, end, [&](int64_t c, auto lanes) {
      const f32x16 gradient = dropout.apply(load(d_out + c, lanes), c);
      if (d_word != nullptr) store(d_word + c, load(d_word + c, lanes) + gradient, lanes);
      if (d_position != nullptr) store(d_position + c, load(d_position + c, lanes) + gradient, lanes);
    });
  }
}

}  // namespace

const EmbeddingKernels embedding_kernels = {
    .forward = {forward<float>, forward<uint16_t>, forward<f16>},
    .backward = {backward<float>, backward<uint16_t>, backward<f16>},
};

}  // namespace trireme::cpu::TRIREME_ISA
