#include "data/numpy/numpy_random.h"

#include <array>
#include <bit>
#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

// SeedSequence(seed).generate_state(4, uint64). The seed's 32-bit words are hashed into a pool of four words, every word of the
// pool is mixed into every other, and the pool is hashed into the output words. A seed of up to 64 bits has two words; missing
// words count as zero.
std::array<uint64_t, 4> seed_sequence(uint64_t seed) {
  constexpr size_t kPool = 4;
  uint32_t hash = 0x43b0d7e5;
  const auto hashed = [&hash](uint32_t value) {
    value ^= hash;
    hash *= 0x931e8875;
    value *= hash;
    return value ^ (value >> 16);
  };
  const auto mixed = [](uint32_t x, uint32_t y) {
    const uint32_t result = 0xca01f9dd * x - 0x4973f715 * y;
    return result ^ (result >> 16);
  };

  std::array<uint32_t, kPool> pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
  for (uint32_t& word : pool) word = hashed(word);
  for (size_t source = 0; source < kPool; ++source)
    for (size_t target = 0; target < kPool; ++target)
      if (source != target) pool[target] = mixed(pool[target], hashed(pool[source]));

  std::array<uint64_t, 4> state{};
  uint32_t output_hash = 0x8b51f9dd;
  for (size_t i = 0; i < 2 * state.size(); ++i) {
    uint32_t word = pool[i % kPool] ^ output_hash;
    output_hash *= 0x58f38ded;
    word *= output_hash;
    word ^= word >> 16;
    state[i / 2] |= uint64_t{word} << (32 * (i % 2));
  }
  return state;
}

}  // namespace

uint64_t NumpyRandomState::interval(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = std::numeric_limits<uint64_t>::max() >> std::countl_zero(max);
  const bool wide = max > std::numeric_limits<uint32_t>::max();
  while (true) {
    uint64_t value = engine_();
    if (wide) value = (value << 32) | engine_();
    value &= mask;
    if (value <= max) return value;
  }
}

NumpyGenerator::NumpyGenerator(uint64_t seed) {
  const std::array<uint64_t, 4> words = seed_sequence(seed);
  const Word128 start = (Word128{words[0]} << 64) | words[1];
  const Word128 stream = (Word128{words[2]} << 64) | words[3];
  increment_ = (stream << 1) | 1;
  next64();  // start from state 0, like PCG's own seeding
  state_ += start;
  next64();
}

uint64_t NumpyGenerator::next64() {
  constexpr Word128 kMultiplier = (Word128{0x2360ED051FC65DA4} << 64) | 0x4385DF649FCCF645;
  state_ = state_ * kMultiplier + increment_;
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

uint32_t NumpyGenerator::next32() {
  if (has_buffered_) {
    has_buffered_ = false;
    return buffered_;
  }
  const uint64_t draw = next64();
  buffered_ = static_cast<uint32_t>(draw >> 32);
  has_buffered_ = true;
  return static_cast<uint32_t>(draw);
}

int64_t NumpyGenerator::integers(int64_t low, int64_t high) {
  CHECK(low < high);
  // Unsigned arithmetic, so that a range wider than half of int64 wraps to its true size.
  const uint64_t base = static_cast<uint64_t>(low);
  const uint64_t range = static_cast<uint64_t>(high) - base;
  if (range == 1) return low;
  if (range > uint64_t{1} << 32) {
    const uint64_t threshold = (0 - range) % range;  // 2^64 mod range: multiples with a smaller low part are over-represented
    Word128 product = 0;
    do product = Word128{next64()} * range;
    while (static_cast<uint64_t>(product) < threshold);
    return static_cast<int64_t>(base + static_cast<uint64_t>(product >> 64));
  }
  const uint64_t threshold = (uint64_t{1} << 32) % range;
  uint64_t product = 0;
  do product = next32() * range;
  while (static_cast<uint32_t>(product) < threshold);
  return static_cast<int64_t>(base + (product >> 32));
}

}  // namespace trireme
