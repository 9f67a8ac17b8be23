#include "backend/ops.h"

#include <cmath>
#include <numbers>

namespace trireme {
namespace {

// Query-key pairs per head: all, or with the causal mask those with j <= i + key_length - Tq.
double visible_pairs(int64_t queries, int64_t keys, CausalMask causal) {
  const double all = static_cast<double>(queries) * static_cast<double>(keys);
  if (causal == CausalMask::no) return all;
  return all - static_cast<double>(queries) * static_cast<double>(queries - 1) / 2;
}

double attention_product_flops(const HeadsView& q, int64_t key_length, CausalMask causal) {
  const Shape& shape = q.packed.shape();  // [B,T,*,D]
  const double pairs = visible_pairs(shape[1], key_length, causal);
  return 2.0 * static_cast<double>(shape[0] * q.count * shape[3]) * pairs;
}

double scaled_by_wavelength(double frequency, const RotaryScaling& scaling) {
  if (scaling.factor == 1) return frequency;
  const double waves = static_cast<double>(scaling.original) * frequency / (2 * std::numbers::pi);  // in `original` positions
  if (waves < scaling.low_factor) return frequency / scaling.factor;
  if (waves > scaling.high_factor) return frequency;
  const double smooth = (waves - scaling.low_factor) / (scaling.high_factor - scaling.low_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

double rotary_frequency(double base, int64_t i, int64_t dims, const RotaryScaling& scaling) {
  return scaled_by_wavelength(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims)), scaling) /
         scaling.linear;
}

double AttentionForward::flops() const { return 2 * attention_product_flops(q, key_length, causal); }

// Five GEMMs: the scores again, and the gradients of v, of the probabilities, of q and of k.
double AttentionBackward::flops() const { return 5 * attention_product_flops(q, key_length, causal); }

}  // namespace trireme
