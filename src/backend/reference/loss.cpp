#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

void ReferenceBackend::run(Stream, const CrossEntropyStats& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  for (int64_t n = 0; n < N; ++n) {
    double highest = -std::numeric_limits<double>::infinity(), total = 0;
    for (int64_t c = 0; c < op.vocabulary; ++c) highest = std::max(highest, get(op.logits, n * V + c));
    for (int64_t c = 0; c < op.vocabulary; ++c) total += std::exp(get(op.logits, n * V + c) - highest);
    const int64_t target = op.targets.as<int32_t>()[n] - op.first_column;
    set(op.row_max, n, highest);
    set(op.row_sum, n, total);
    set(op.target_logit, n, target < 0 || target >= op.vocabulary ? 0 : get(op.logits, n * V + target));
  }
}

void ReferenceBackend::run(Stream, const RescaleSums& op) {
  for (int64_t n = 0; n < op.row_sum.count(); ++n)
    set(op.row_sum, n, get(op.row_sum, n) * std::exp(get(op.part_max, n) - get(op.row_max, n)));
}

void ReferenceBackend::run(Stream, const CrossEntropyGrad& op) {
  const int64_t N = op.logits.shape[0], V = op.logits.shape[1];
  const double scale = scalar(op.scalars, StepScalar::inverse_targets);
  double loss_sum = 0;
  for (int64_t n = 0; n < N; ++n) {
    const int64_t target = op.targets.as<int32_t>()[n];
    const double highest = get(op.row_max, n), total = get(op.row_sum, n);
    set(op.losses, n, target < 0 ? 0 : std::log(total) + highest - get(op.target_logit, n));
    loss_sum += get(op.losses, n);
    if (op.write_grad == WriteGrad::no) continue;
    for (int64_t c = 0; c < V; ++c) {
      const double softmax = c < op.vocabulary ? std::exp(get(op.logits, n * V + c) - highest) / total : 0;
      const bool is_target = c < op.vocabulary && op.first_column + c == target;
      set(op.logits, n * V + c, target < 0 ? 0 : (softmax - (is_target ? 1 : 0)) * scale);
    }
  }
  scalar_slot(op.scalars, StepScalar::loss_sum) += loss_sum;
}

void ReferenceBackend::run(Stream stream, const CrossEntropy& op) {
  run(stream, op.stats());
  run(stream, op.grad());
}

}  // namespace trireme
