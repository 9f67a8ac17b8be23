// Products and sums of counts from a recipe. An overflow is a user error, not a wrapped number.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace trireme {

inline int64_t checked_multiply(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw UserError("{}: {} * {} does not fit in 64 bits", what, a, b);
  return product;
}

inline int64_t checked_add(int64_t a, int64_t b, const char* what) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw UserError("{}: {} + {} does not fit in 64 bits", what, a, b);
  return sum;
}

}  // namespace trireme
