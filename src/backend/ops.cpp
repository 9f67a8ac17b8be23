#include "backend/ops.h"

namespace trireme {
namespace {

// Query-key pairs one head sees: all, or with the causal mask those j <= i + key_length - Tq.
double visible_pairs(int64_t queries, int64_t keys, CausalMask causal) {
  const double all = static_cast<double>(queries) * static_cast<double>(keys);
  if (causal == CausalMask::no) return all;
  return all - static_cast<double>(queries) * static_cast<double>(queries - 1) / 2;
}

double attention_product_flops(const HeadsView& q, int64_t key_length, CausalMask causal) {
  const Shape& shape = q.packed.shape;  // [B,T,*,D]
  const double pairs = visible_pairs(shape[1], key_length, causal);
  return 2.0 * static_cast<double>(shape[0] * q.count * shape[3]) * pairs;
}

}  // namespace

double AttentionForward::flops() const { return 2 * attention_product_flops(q, key_length, causal); }

// Scores again, and the gradients of v, of the probabilities, of q and of k.
double AttentionBackward::flops() const { return 5 * attention_product_flops(q, key_length, causal); }

}  // namespace trireme
