#include "base/md5.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace trireme {
namespace {

using State = std::array<uint32_t, 4>;

// The constants are defined as the integer part of 2^32 |sin(i)|, i = 1 to 64.
const std::array<uint32_t, 64>& sines() {
  static const std::array<uint32_t, 64> table = [] {
    std::array<uint32_t, 64> values{};
    for (size_t i = 0; i < 64; ++i)
      values[i] = static_cast<uint32_t>(std::floor(std::abs(std::sin(static_cast<double>(i + 1))) * 4294967296.0));
    return values;
  }();
  return table;
}

void add_block(State& state, const char* block) {
  static constexpr std::array<std::array<int, 4>, 4> kShifts{{{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};
  std::array<uint32_t, 16> words{};
  std::memcpy(words.data(), block, 64);
  auto [a, b, c, d] = state;
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t mixed = 0, word = 0;
    switch (i / 16) {
      case 0:
        mixed = (b & c) | (~b & d), word = i;
        break;
      case 1:
        mixed = (d & b) | (~d & c), word = (5 * i + 1) % 16;
        break;
      case 2:
        mixed = b ^ c ^ d, word = (3 * i + 5) % 16;
        break;
      default:
        mixed = c ^ (b | ~d), word = 7 * i % 16;
    }
    const uint32_t turned = std::rotl(a + mixed + sines()[i] + words[word], kShifts[i / 16][i % 4]);
    a = d, d = c, c = b, b += turned;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

}  // namespace

std::string md5_hex(std::string_view text) {
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8, '\0');
  const uint64_t bits = text.size() * 8;
  padded.append(reinterpret_cast<const char*>(&bits), 8);
  State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (size_t at = 0; at < padded.size(); at += 64) add_block(state, padded.data() + at);
  std::string hex;
  for (const uint32_t word : state)
    for (int byte = 0; byte < 4; ++byte) hex += fmt::format("{:02x}", word >> (8 * byte) & 0xff);
  return hex;
}

}  // namespace trireme
