// Numbers that are valid, for error messages.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// "1, 2, 4, 8 or 16": the divisors of n, at most the eight nearest to `wanted`.
std::string divisors_near(int64_t n, int64_t wanted);

// "6 or 12": the multiples of `unit` just below and above `wanted`.
std::string multiples_near(int64_t unit, int64_t wanted);

}  // namespace trireme
