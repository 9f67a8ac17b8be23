#include "backend/cpu/kernels/embedding.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme {

using namespace cpu;

namespace {

// Checks all indices, because one outside of the table would read or write foreign memory.
const int32_t* checked_indices(const Tensor& indices, int64_t rows) {
  for (const int32_t index : indices.span<int32_t>()) CHECK(index >= 0 && index < rows);
  return indices.as<int32_t>();
}

}  // namespace

void CpuBackend::run(Stream, const EmbeddingForward& op) {
  const int64_t N = op.out.shape[0], C = op.out.shape[1];
  CHECK_EQ(op.tokens.count(), N);
  const EmbeddingForwardArguments arguments{
      .width = C,
      .first_token = op.first_token,
      .token_count = op.word.shape[0],
      .tokens = op.tokens.as<int32_t>(),
      .positions = op.position ? checked_indices(op.positions, op.position.shape[0]) : nullptr,
      .word = op.word.data,
      .position = op.position.data,
      .dropout = dropout_arguments(op.dropout, N),
      .out = op.out.data};
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, embedding_kernels).forward, op.out.dtype);
  const int64_t rows = rows_per_task(C);
  pool_.run(ceil_div(N, rows), [&](int64_t task) { kernel(arguments, task * rows, std::min(N, (task + 1) * rows)); });
}

// Tokens repeat, so rows cannot be divided among tasks. Each task takes some columns of all rows, in the order of the rows.
void CpuBackend::run(Stream, const EmbeddingBackward& op) {
  const int64_t N = op.d_out.shape[0], C = op.d_out.shape[1];
  CHECK_EQ(op.tokens.count(), N);
  const EmbeddingBackwardArguments arguments{
      .rows = N,
      .width = C,
      .first_token = op.first_token,
      .token_count = op.d_word.shape[0],
      .tokens = op.tokens.as<int32_t>(),
      .positions = op.d_position ? checked_indices(op.positions, op.d_position.shape[0]) : nullptr,
      .dropout = dropout_arguments(op.dropout, N),
      .d_out = op.d_out.data,
      .d_word = op.d_word.as<float>(),
      .d_position = op.d_position ? op.d_position.as<float>() : nullptr};
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, embedding_kernels).backward, op.d_out.dtype);
  constexpr int64_t kColumns = 64;
  pool_.run(ceil_div(C, kColumns), [&](int64_t task) { kernel(arguments, task * kColumns, std::min(C, (task + 1) * kColumns)); });
}

}  // namespace trireme
