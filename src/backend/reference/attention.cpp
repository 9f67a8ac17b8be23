#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/host_fp8.h"
#include "backend/reference/element.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

using namespace reference;

namespace {

// How many keys query t sees.
template <class Op>
int64_t visible_keys(const Op& op, int64_t t) {
  return op.causal == CausalMask::no ? op.key_length : t + 1 + op.key_length - op.q.packed.shape()[1];
}

// The first key that query t of sequence b sees, if it sees any.
template <class Op>
int64_t first_visible_key(const Op& op, int64_t b, int64_t t) {
  if (!op.document_starts) return 0;
  return std::max<int64_t>(0, op.document_starts.template as<int32_t>()[b * op.q.packed.shape()[1] + t] - op.first_key);
}

template <class Op>
double score(const Op& op, int64_t b, int64_t t, int64_t j, int64_t head, int64_t group) {
  const int64_t D = op.q.packed.shape()[3];
  double sum = 0;
  for (int64_t d = 0; d < D; ++d)
    sum += get(op.q.packed.tensor, offset(op.q, b, t, head) + d) * get(op.k.packed.tensor, offset(op.k, b, j, group) + d);
  return sum * static_cast<double>(op.scale);
}

void clear(const HeadsView& view) {
  const Shape& shape = view.packed.shape();
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t t = 0; t < shape[1]; ++t)
      for (int64_t i = 0; i < view.count * shape[3]; ++i) set(view.packed.tensor, offset(view, b, t, 0) + i, 0);
}

}  // namespace

void ReferenceBackend::run(Stream, const Rotary& op) {
  const Shape& shape = op.heads.packed.shape();  // [B,T,*,D]
  const int64_t half = op.dims / 2;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t t = 0; t < shape[1]; ++t)
      for (int64_t head = 0; head < op.heads.count; ++head)
        for (int64_t i = 0; i < half; ++i) {
          const double angle = op.positions.as<int32_t>()[b * shape[1] + t] * rotary_frequency(op.base, i, op.dims, op.scaling);
          const double cosine = std::cos(angle),
                       sine = op.direction == RotaryDirection::forward ? std::sin(angle) : -std::sin(angle);
          const int64_t at = offset(op.heads, b, t, head) + i;
          const double x = get(op.heads.packed.tensor, at), y = get(op.heads.packed.tensor, at + half);
          set(op.heads.packed.tensor, at, x * cosine - y * sine);
          set(op.heads.packed.tensor, at + half, y * cosine + x * sine);
        }
  fill_copies_on_host(op.heads.packed);
}

void ReferenceBackend::run(Stream, const AttentionForward& op) {
  const Shape& shape = op.q.packed.shape();
  const int64_t B = shape[0], T = shape[1], D = shape[3], H = op.q.count;
  std::vector<double> scores(static_cast<size_t>(op.key_length));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t head = 0; head < H; ++head)
      for (int64_t t = 0; t < T; ++t) {
        const int64_t group = head / div_exact(H, op.k.count), keys = visible_keys(op, t), first = first_visible_key(op, b, t);
        double highest = -std::numeric_limits<double>::infinity(), total = 0;
        for (int64_t j = first; j < keys; ++j) {
          scores[static_cast<size_t>(j)] = score(op, b, t, j, head, group);
          highest = std::max(highest, scores[static_cast<size_t>(j)]);
        }
        for (int64_t j = first; j < keys; ++j) total += std::exp(scores[static_cast<size_t>(j)] - highest);
        const double lse = highest + std::log(total);
        set(op.lse, (b * H + head) * T + t, lse);
        for (int64_t d = 0; d < D; ++d) {
          double sum = 0;
          for (int64_t j = first; j < keys; ++j)
            sum += std::exp(scores[static_cast<size_t>(j)] - lse) *
                   dropout_factor(op.dropout, op.dropout.site + static_cast<uint32_t>(head), b * T + t, op.first_key + j) *
                   get(op.v.packed.tensor, offset(op.v, b, j, group) + d);
          set(op.out.tensor, ((b * T + t) * H + head) * D + d, sum);
        }
      }
  fill_copies_on_host(op.out);
}

void ReferenceBackend::run(Stream, const AttentionBackward& op) {
  const Shape& shape = op.q.packed.shape();
  const int64_t B = shape[0], T = shape[1], D = shape[3], H = op.q.count, G = op.k.count;
  const int64_t keys_stored = op.k.packed.shape()[1];
  clear(op.d_q), clear(op.d_k), clear(op.d_v);
  const auto size = static_cast<size_t>(keys_stored * D);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t group = 0; group < G; ++group) {
      std::vector<double> d_k(size), d_v(size);
      for (int64_t head = group * (H / G); head < (group + 1) * (H / G); ++head)
        for (int64_t t = 0; t < T; ++t) {
          const int64_t row = ((b * T + t) * H + head) * D;
          std::vector<double> d_q(static_cast<size_t>(D));
          double delta = 0;  // d_out . out, which the softmax gradient subtracts from every score's gradient
          for (int64_t d = 0; d < D; ++d) delta += get(op.d_out, row + d) * get(op.out, row + d);
          for (int64_t j = first_visible_key(op, b, t); j < visible_keys(op, t); ++j) {
            const double probability = std::exp(score(op, b, t, j, head, group) - get(op.lse, (b * H + head) * T + t));
            const double factor =
                dropout_factor(op.dropout, op.dropout.site + static_cast<uint32_t>(head), b * T + t, op.first_key + j);
            double d_probability = 0;
            for (int64_t d = 0; d < D; ++d) {
              d_probability += get(op.d_out, row + d) * get(op.v.packed.tensor, offset(op.v, b, j, group) + d);
              d_v[static_cast<size_t>(j * D + d)] += probability * factor * get(op.d_out, row + d);
            }
            const double d_score = probability * (factor * d_probability - delta) * static_cast<double>(op.scale);
            for (int64_t d = 0; d < D; ++d) {
              d_q[static_cast<size_t>(d)] += d_score * get(op.k.packed.tensor, offset(op.k, b, j, group) + d);
              d_k[static_cast<size_t>(j * D + d)] += d_score * get(op.q.packed.tensor, offset(op.q, b, t, head) + d);
            }
          }
          for (int64_t d = 0; d < D; ++d) set(op.d_q.packed.tensor, offset(op.d_q, b, t, head) + d, d_q[static_cast<size_t>(d)]);
        }
      for (int64_t j = 0; j < keys_stored; ++j)
        for (int64_t d = 0; d < D; ++d) {
          set(op.d_k.packed.tensor, offset(op.d_k, b, j, group) + d, d_k[static_cast<size_t>(j * D + d)]);
          set(op.d_v.packed.tensor, offset(op.d_v, b, j, group) + d, d_v[static_cast<size_t>(j * D + d)]);
        }
    }
  fill_copies_on_host(op.d_q.packed);
}

void ReferenceBackend::run(Stream, const MergeAttention& op) {
  const Shape& shape = op.out.shape;  // [B,T,H,D]
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t t = 0; t < shape[1]; ++t)
      for (int64_t head = 0; head < shape[2]; ++head) {
        const int64_t statistic = (b * shape[2] + head) * shape[1] + t, row = ((b * shape[1] + t) * shape[2] + head) * shape[3];
        const double lse = get(op.lse, statistic), part = get(op.part_lse, statistic), highest = std::max(lse, part);
        const double joined = highest + std::log(std::exp(lse - highest) + std::exp(part - highest));
        const double weight = std::exp(lse - joined), part_weight = std::exp(part - joined);
        for (int64_t d = 0; d < shape[3]; ++d)
          set(op.out, row + d, weight * get(op.out, row + d) + part_weight * get(op.part_out, row + d));
        set(op.lse, statistic, joined);
      }
}

void ReferenceBackend::run(Stream, const CopyHeads& op) {
  const Shape& shape = op.from.packed.shape();
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t t = 0; t < shape[1]; ++t)
      for (int64_t i = 0; i < op.from.count * shape[3]; ++i)
        set(op.to.packed.tensor, offset(op.to, b, op.to_position + t, 0) + i,
            get(op.from.packed.tensor, offset(op.from, b, t, 0) + i));
}

}  // namespace trireme
