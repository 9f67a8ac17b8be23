// The residual stream: adds with dropout, norms and their gradients.
#include "backend/cpu/kernels/norm.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"

namespace trireme {

using namespace cpu;

namespace {

NormArguments norm_arguments(NormKind kind) {
  return {.centred = kind != NormKind::rmsnorm, .weight_offset = kind == NormKind::layernorm1p ? 1.0f : 0.0f};
}

template <class Op>
ResidualArguments residual_arguments(const Op& op, int64_t N, int64_t C) {
  return {.width = C,
          .residual = op.residual.data,
          .branch = op.branch.data,
          .branch2 = op.branch2.data,
          .dropout = dropout_arguments(op.dropout, N),
          .dropout2 = dropout_arguments(op.dropout2, N),
          .sum = op.sum.data};
}

// The gradients of weight and bias are sums over all rows. Each block of rows computes partial sums while its rows are in cache;
// these are then added in order. The blocks depend only on the number of rows.
struct RowBlocks {
  static constexpr int64_t kSmallest = 32, kMost = 256;
  explicit RowBlocks(int64_t N) : rows(std::max(kSmallest, ceil_div(N, kMost))), count(ceil_div(N, rows)) {}
  int64_t rows;
  int64_t count;
};

// to[c] += sum over blocks of partials[block, which, c].    partials: [blocks, 2, C].
void add_partial_sums(ThreadPool& pool, const float* partials, int64_t which, int64_t blocks, int64_t C, float* to) {
  constexpr int64_t kColumns = 256;
  pool.run(ceil_div(C, kColumns), [&](int64_t task) {
    const int64_t begin = task * kColumns, count = std::min(kColumns, C - begin);
    float totals[kColumns] = {};
    for (int64_t block = 0; block < blocks; ++block) {
      const float* partial = partials + (block * 2 + which) * C + begin;
      for (int64_t c = 0; c < count; ++c) totals[c] += partial[c];
    }
    for (int64_t c = 0; c < count; ++c) to[begin + c] += totals[c];
  });
}

}  // namespace

void CpuBackend::run(Stream, const ResidualNormForward& op) {
  const int64_t N = op.out.shape()[0], C = op.out.shape()[1];
  CHECK_EQ(op.residual.shape, op.out.shape());
  CHECK_EQ(static_cast<bool>(op.branch), static_cast<bool>(op.sum));
  CHECK(op.branch || !op.branch2);
  CHECK(op.mean || op.kind == NormKind::rmsnorm);
  const NormForwardArguments arguments{.residual = residual_arguments(op, N, C),
                                       .norm = norm_arguments(op.kind),
                                       .epsilon = op.epsilon,
                                       .weight = op.weight.data,
                                       .bias = op.bias.data,
                                       .out = op.out.tensor.data,
                                       .mean = op.mean ? op.mean.as<float>() : nullptr,
                                       .rstd = op.rstd.as<float>()};
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, norm_kernels).forward, op.out.dtype());
  const int64_t rows = rows_per_task(C);
  pool_.run(ceil_div(N, rows), [&](int64_t task) { kernel(arguments, task * rows, std::min(N, (task + 1) * rows)); });
}

int64_t CpuBackend::scratch_bytes(const ResidualNormBackward& op) const {
  return RowBlocks(op.sum.shape[0]).count * 2 * op.sum.shape[1] * size_of(DType::f32);
}

void CpuBackend::run(Stream, const ResidualNormBackward& op) {
  const int64_t N = op.sum.shape[0], C = op.sum.shape[1];
  CHECK_EQ(op.d_out.shape, op.sum.shape);
  CHECK(op.mean || op.kind == NormKind::rmsnorm);
  CHECK(scratch_.bytes() >= scratch_bytes(op));
  const NormBackwardArguments arguments{.width = C,
                                        .norm = norm_arguments(op.kind),
                                        .sum = op.sum.data,
                                        .weight = op.weight.data,
                                        .mean = op.mean ? op.mean.as<float>() : nullptr,
                                        .rstd = op.rstd.as<float>(),
                                        .d_out = op.d_out.data,
                                        .d_residual = op.d_residual.data,
                                        .dropout = dropout_arguments(op.dropout, N),
                                        .dropout2 = dropout_arguments(op.dropout2, N),
                                        .d_sum = op.d_sum.tensor.data,
                                        .d_branch = op.d_branch.tensor.data,
                                        .d_branch2 = op.d_branch2.tensor.data};
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, norm_kernels).backward, op.sum.dtype);
  const RowBlocks blocks(N);
  float* partials = static_cast<float*>(scratch_.data);  // [blocks, 2, C]: of d_weight and of d_bias
  pool_.run(blocks.count, [&](int64_t block) {
    float* d_weight = partials + block * 2 * C;
    kernel(arguments, block * blocks.rows, std::min(N, (block + 1) * blocks.rows), d_weight, d_weight + C);
  });
  add_partial_sums(pool_, partials, 0, blocks.count, C, op.d_weight.as<float>());
  if (op.d_bias) add_partial_sums(pool_, partials, 1, blocks.count, C, op.d_bias.as<float>());
}

void CpuBackend::run(Stream, const ResidualAdd& op) {
  const int64_t N = op.sum.shape[0], C = op.sum.shape[1];
  CHECK_EQ(op.residual.shape, op.sum.shape);
  CHECK_EQ(op.branch.shape, op.sum.shape);
  const ResidualArguments arguments = residual_arguments(op, N, C);
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, norm_kernels).residual_add, op.sum.dtype);
  const int64_t rows = rows_per_task(C);
  pool_.run(ceil_div(N, rows), [&](int64_t task) { kernel(arguments, task * rows, std::min(N, (task + 1) * rows)); });
}

void CpuBackend::run(Stream, const DropoutBackward& op) {
  const int64_t N = op.d_sum.shape[0], C = op.d_sum.shape[1];
  CHECK_EQ(op.d_branch.shape(), op.d_sum.shape);
  const DropoutBackwardArguments arguments{
      .width = C, .dropout = dropout_arguments(op.dropout, N), .d_sum = op.d_sum.data, .d_branch = op.d_branch.tensor.data};
  const auto kernel = select_dtype(TRIREME_KERNELS_FOR(isa_, norm_kernels).dropout_backward, op.d_sum.dtype);
  const int64_t rows = rows_per_task(C);
  pool_.run(ceil_div(N, rows), [&](int64_t task) { kernel(arguments, task * rows, std::min(N, (task + 1) * rows)); });
}

}  // namespace trireme
