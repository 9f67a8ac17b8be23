// SHA-256 of the bytes of an array, as 64 hexadecimal digits: large golden arrays are known by it.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace trireme {

inline std::string sha256(std::span<const std::byte> bytes) {
  // The constants are the first 32 bits of the fractions of the square and cube roots of the first primes; long double holds
  // enough digits for that.
  const auto fraction = [](long double root) { return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L); };
  std::array<uint32_t, 64> constants{};
  std::array<uint32_t, 8> hash{};
  size_t primes = 0;
  for (int candidate = 2; primes < constants.size(); ++candidate) {
    bool prime = true;
    for (int divisor = 2; divisor * divisor <= candidate; ++divisor) prime = prime && candidate % divisor != 0;
    if (!prime) continue;
    if (primes < hash.size()) hash[primes] = fraction(std::sqrt(static_cast<long double>(candidate)));
    constants[primes++] = fraction(std::cbrt(static_cast<long double>(candidate)));
  }

  // The message is closed by a one bit, zeros up to a multiple of 64 bytes, and its length in bits.
  std::vector<uint8_t> message(bytes.size());
  if (!bytes.empty()) std::memcpy(message.data(), bytes.data(), bytes.size());
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8) message.push_back(static_cast<uint8_t>((uint64_t{bytes.size()} * 8) >> shift));

  for (size_t block = 0; block < message.size(); block += 64) {
    std::array<uint32_t, 64> words{};
    for (size_t i = 0; i < 64; ++i) words[i / 4] = (words[i / 4] << 8) | message[block + i];
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
                 (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + words[i];
      const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < hash.size(); ++i) hash[i] += mixed[i];
  }

  std::string digits;
  for (const uint32_t word : hash) digits += fmt::format("{:08x}", word);
  return digits;
}

}  // namespace trireme
