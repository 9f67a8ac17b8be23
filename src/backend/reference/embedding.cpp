#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

void ReferenceBackend::run(Stream, const EmbeddingForward& op) {
  const int64_t N = op.out.shape[0], C = op.out.shape[1];
  for (int64_t n = 0; n < N; ++n) {
    const int64_t token = op.tokens.as<int32_t>()[n] - op.first_token;
    const bool is_here = token >= 0 && token < op.word.shape[0];
    for (int64_t c = 0; c < C; ++c) {
      double value = is_here ? get(op.word, token * C + c) : 0;
      if (op.position) value += get(op.position, op.positions.as<int32_t>()[n] * C + c);
      set(op.out, n * C + c, value * dropout_factor(op.dropout, n, c));
    }
  }
}

void ReferenceBackend::run(Stream, const EmbeddingBackward& op) {
  const int64_t N = op.d_out.shape[0], C = op.d_out.shape[1];
  for (int64_t n = 0; n < N; ++n) {
    const int64_t token = op.tokens.as<int32_t>()[n] - op.first_token;
    const bool is_here = token >= 0 && token < op.d_word.shape[0];
    for (int64_t c = 0; c < C; ++c) {
      const double gradient = get(op.d_out, n * C + c) * dropout_factor(op.dropout, n, c);
      if (is_here) add(op.d_word, token * C + c, gradient);
      if (op.d_position) add(op.d_position, op.positions.as<int32_t>()[n] * C + c, gradient);
    }
  }
}

}  // namespace trireme
