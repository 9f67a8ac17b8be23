#include "evaluate/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"

namespace trireme {
namespace {

constexpr size_t kMiddle = 397;

uint32_t twisted(uint32_t high, uint32_t low) {
  const uint32_t y = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return (y >> 1) ^ ((y & 1) != 0 ? 0x9908B0DFU : 0);
}

}  // namespace

// The generator's seeding by an array of words, which are those of the integer.
PythonRandom::PythonRandom(uint64_t seed) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<uint32_t>(seed >> 32));
  constexpr uint32_t kStart = 19650218;
  state_[0] = kStart;
  const auto mixed = [&](size_t i) { return state_[i - 1] ^ (state_[i - 1] >> 30); };
  for (size_t i = 1; i < kWords; ++i) state_[i] = 1812433253U * mixed(i) + static_cast<uint32_t>(i);
  size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t step = 0; step < kWords; ++step) {
    state_[i] = (state_[i] ^ (mixed(i) * 1664525U)) + key[j] + static_cast<uint32_t>(j);
    j = (j + 1) % key.size();
    advance();
  }
  for (size_t step = 1; step < kWords; ++step) {
    state_[i] = (state_[i] ^ (mixed(i) * 1566083941U)) - static_cast<uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::twist() {
  for (size_t i = 0; i < kWords; ++i) state_[i] = state_[(i + kMiddle) % kWords] ^ twisted(state_[i], state_[(i + 1) % kWords]);
  used_ = 0;
}

uint32_t PythonRandom::next() {
  if (used_ == kWords) twist();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680U;
  y ^= (y << 15) & 0xEFC60000U;
  return y ^ (y >> 18);
}

// Draws as many bits as the limit has until they are below it.
uint64_t PythonRandom::below(uint64_t limit) {
  const int bits = static_cast<int>(std::bit_width(limit));
  CHECK(bits > 0 && bits <= 32);
  for (;;)
    if (const uint64_t drawn = next() >> (32 - bits); drawn < limit) return drawn;
}

// Few of many are drawn again while they have been drawn before; else from a list that shrinks.
std::vector<int64_t> PythonRandom::sample(int64_t population, int64_t count) {
  CHECK(count >= 0 && count <= population);
  double list_is_smaller = 21;
  if (count > 5) list_is_smaller += std::pow(4, std::ceil(std::log(static_cast<double>(count * 3)) / std::log(4.0)));
  std::vector<int64_t> drawn;
  if (static_cast<double>(population) > list_is_smaller) {
    std::set<int64_t> seen;
    while (std::ssize(drawn) < count)
      if (const auto index = static_cast<int64_t>(below(static_cast<uint64_t>(population))); seen.insert(index).second)
        drawn.push_back(index);
    return drawn;
  }
  std::vector<int64_t> pool(static_cast<size_t>(population));
  std::iota(pool.begin(), pool.end(), int64_t{0});
  while (std::ssize(drawn) < count) {
    const uint64_t index = below(pool.size());
    drawn.push_back(pool[index]);
    pool[index] = pool.back();
    pool.pop_back();
  }
  return drawn;
}

}  // namespace trireme
