#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are loaded at once, lowest first");

// tables[k][b] is the remainder of byte b followed by k zero bytes, so that eight lookups process eight bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 bit-reversed
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = remainder;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t shorter = tables[k - 1][byte];
      tables[k][byte] = (shorter >> 8) ^ tables[0][shorter & 0xff];
    }
  return tables;
}

constexpr Tables kTables = make_tables();

uint64_t load_eight(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> bytes, uint32_t seed) {
  uint64_t remainder = ~seed;
  const std::byte* next = bytes.data();
  const std::byte* const end = next + bytes.size();
  for (; end - next >= 8; next += 8) remainder = __builtin_ia32_crc32di(remainder, load_eight(next));
  auto tail = static_cast<uint32_t>(remainder);
  for (; next != end; ++next) tail = __builtin_ia32_crc32qi(tail, std::to_integer<uint8_t>(*next));
  return ~tail;
}
#endif

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t seed) {
  uint32_t remainder = ~seed;
  const std::byte* next = bytes.data();
  const std::byte* const end = next + bytes.size();
  for (; end - next >= 8; next += 8) {
    const uint64_t eight = load_eight(next) ^ remainder;
    remainder = 0;
    for (size_t i = 0; i < 8; ++i) remainder ^= kTables[7 - i][(eight >> (8 * i)) & 0xff];
  }
  for (; next != end; ++next) remainder = (remainder >> 8) ^ kTables[0][(remainder ^ std::to_integer<uint32_t>(*next)) & 0xff];
  return ~remainder;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t seed) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_sse42(bytes, seed);
#endif
  return crc32c_portable(bytes, seed);
}

}  // namespace trireme
