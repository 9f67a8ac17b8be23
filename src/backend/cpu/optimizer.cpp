#include "backend/cpu/kernels/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels/pointwise_select.h"
#include "backend/host_loss_scale.h"

namespace trireme {

using namespace cpu;

namespace {

// Ranges of a flat buffer are split into pieces of this many elements, numbered through all ranges. The pieces, and so the order
// of every sum, depend only on the ranges.
constexpr int64_t kPiece = 64 * 1024;

template <class Range>
int64_t count_pieces(std::span<const Range> ranges) {
  int64_t pieces = 0;
  for (const Range& range : ranges) pieces += ceil_div(range.count, kPiece);
  return pieces;
}

template <class Range>
struct Piece {
  const Range& range;
  int64_t begin, count;  // in the flat buffer
};

template <class Range>
Piece<Range> find_piece(std::span<const Range> ranges, int64_t number) {
  for (const Range& range : ranges) {
    const int64_t pieces = ceil_div(range.count, kPiece);
    if (number < pieces) return {range, range.begin + number * kPiece, std::min(kPiece, range.count - number * kPiece)};
    number -= pieces;
  }
  check_failed(__FILE__, __LINE__, "a piece outside the ranges");
}

double& scalar(const Tensor& scalars, StepScalar slot) { return scalars.as<double>()[static_cast<int64_t>(slot)]; }

bool is_moment(const Tensor& tensor) { return tensor.dtype == DType::f32 || tensor.dtype == DType::bf16; }

AdamWFactors adamw_factors(const AdamW& op) {
  const double updates = scalar(op.scalars, StepScalar::updates);
  return {.clip = static_cast<float>(scalar(op.scalars, StepScalar::clip_factor)),
          .beta1 = static_cast<float>(op.beta1),
          .one_minus_beta1 = static_cast<float>(1 - op.beta1),
          .beta2 = static_cast<float>(op.beta2),
          .one_minus_beta2 = static_cast<float>(1 - op.beta2),
          .m_correction = static_cast<float>(1 / (1 - std::pow(op.beta1, updates))),
          .root_v_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(op.beta2, updates))),
          .epsilon = static_cast<float>(op.epsilon),
          .learning_rate = static_cast<float>(scalar(op.scalars, StepScalar::learning_rate))};
}

}  // namespace

int64_t CpuBackend::scratch_bytes(const SquaredNorms& op) const { return count_pieces(op.ranges) * size_of(DType::f64); }

void CpuBackend::run(Stream, const SquaredNorms& op) {
  CHECK_EQ(op.squares.count(), static_cast<int64_t>(op.ranges.size()));
  CHECK(scratch_.bytes() >= scratch_bytes(op));
  const auto& kernels = TRIREME_KERNELS_FOR(isa_, optimizer_kernels);
  const float* grads = op.grads.as<float>();
  auto* partials = static_cast<double*>(scratch_.data);  // one per piece
  pool_.run(count_pieces(op.ranges), [&](int64_t number) {
    const auto piece = find_piece(op.ranges, number);
    CHECK(piece.begin >= 0 && piece.begin + piece.count <= op.grads.count());
    partials[number] = kernels.sum_of_squares(grads + piece.begin, piece.count);
  });
  double* squares = op.squares.as<double>();
  for (size_t r = 0; r < op.ranges.size(); ++r) {
    squares[r] = 0;
    for (int64_t piece = 0; piece < ceil_div(op.ranges[r].count, kPiece); ++piece) squares[r] += *partials++;
  }
}

void CpuBackend::run(Stream, const ApplyClip& op) {
  double sum = 0;
  for (const double square : op.squares.span<double>()) sum += square;
  const double loss_scale = scalar(op.scalars, StepScalar::loss_scale);
  const double norm = std::sqrt(sum) / loss_scale, factor = op.max_norm / (norm + 1e-6);
  const bool finite = std::isfinite(norm) && std::isfinite(scalar(op.scalars, StepScalar::loss_sum));
  scalar(op.scalars, StepScalar::grad_norm) = norm;
  scalar(op.scalars, StepScalar::finite) = finite ? 1 : 0;
  scalar(op.scalars, StepScalar::clip_factor) = (op.max_norm > 0 && factor < 1 ? factor : 1) / loss_scale;
  scalar(op.scalars, StepScalar::updates) += finite ? 1 : 0;
}

void CpuBackend::run(Stream, const ScaleLoss& op) { scale_loss(op); }
void CpuBackend::run(Stream, const UpdateLossScale& op) { update_loss_scale(op); }

void CpuBackend::run(Stream, const AdamW& op) {
  if (scalar(op.scalars, StepScalar::finite) == 0) return;
  const AdamWFactors factors = adamw_factors(op);
  const auto& kernels = TRIREME_KERNELS_FOR(isa_, optimizer_kernels);
  CHECK(is_moment(op.m) && is_moment(op.v));
  const auto kernel = select_dtype(kernels.adamw[op.m.dtype == DType::bf16][op.v.dtype == DType::bf16], op.weights.dtype);
  const float* grads = op.grads.as<float>();
  float* master = op.master.as<float>();
  pool_.run(count_pieces(op.ranges), [&](int64_t number) {
    const auto piece = find_piece(op.ranges, number);
    CHECK(piece.begin >= 0 && piece.begin + piece.count <= op.master.count());
    kernel(factors, {.count = piece.count,
                     .weight_decay = piece.range.weight_decay,
                     .grads = grads + piece.begin,
                     .master = master + piece.begin,
                     .m = at(op.m, piece.begin),
                     .v = at(op.v, piece.begin),
                     .weights = at(op.weights, piece.begin)});
  });
}

}  // namespace trireme
