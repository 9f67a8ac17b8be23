// Counter-based random numbers (Philox4x32-10). A draw is a pure function of its key and counter. It does not depend on the rank
// or on earlier draws, so every layout and every resumed run sees the same numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace trireme {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in (0, 1), never 0 or 1.
constexpr double uniform_open(uint32_t bits) { return (bits + 0.5) * (1.0 / 4294967296.0); }

// Four independent standard normals from one block (Box-Muller).
inline std::array<double, 4> normals(const PhiloxBlock& bits) {
  constexpr double kTwoPi = 6.283185307179586476925;
  std::array<double, 4> out{};
  for (size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform_open(bits[i])));
    const double angle = kTwoPi * uniform_open(bits[i + 1]);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
  return out;
}

// Returns the block for element `index` of a dropout row. The key is the row (sample and position), the column, the site in
// the model and, for attention probabilities, the head. Lane index % 4 belongs to the element, which is kept if its bits are >=
// dropout_threshold(probability).
constexpr PhiloxBlock dropout_block(uint64_t seed, uint32_t site, int64_t row_key, int64_t index) {
  return philox(seed,
                {static_cast<uint32_t>(index >> 2), site, static_cast<uint32_t>(row_key), static_cast<uint32_t>(row_key >> 32)});
}

constexpr uint32_t dropout_threshold(float probability) {
  return static_cast<uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

}  // namespace trireme
