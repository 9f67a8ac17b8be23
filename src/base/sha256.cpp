#include "base/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#if defined(__x86_64__)
  #include <cpuid.h>
  #include <immintrin.h>
#endif

namespace trireme {
namespace {

alignas(16) constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

uint32_t load_big_endian(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return __builtin_bswap32(value);
}

bool processor_has_sha() {
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kShaBit = 1u << 29;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kShaBit) != 0 && __builtin_cpu_supports("sse4.1");
#else
  return false;
#endif
}

}  // namespace

Sha256::Sha256(Instructions instructions)
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      compress_(instructions == Instructions::best && processor_has_sha() ? compress_sha_ni : compress_portable) {}

void Sha256::add(std::span<const std::byte> bytes) {
  const size_t waiting = static_cast<size_t>(bytes_) % kBlock;
  bytes_ += static_cast<int64_t>(bytes.size());
  if (waiting != 0) {
    const size_t taken = std::min(kBlock - waiting, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<ptrdiff_t>(waiting));
    bytes = bytes.subspan(taken);
    if (waiting + taken < kBlock) return;
    compress_(state_, pending_.data(), 1);
  }
  const size_t blocks = bytes.size() / kBlock;
  compress_(state_, bytes.data(), blocks);
  std::ranges::copy(bytes.subspan(blocks * kBlock), pending_.begin());
}

std::string Sha256::finish() {
  // The padding is a one bit, zeros up to eight bytes before the end of a block, and the length in bits.
  const uint64_t bits = static_cast<uint64_t>(bytes_) * 8;
  std::array<std::byte, 2 * kBlock> tail{};
  tail[0] = std::byte{0x80};
  const size_t used = static_cast<size_t>(bytes_) % kBlock;
  const size_t padding = (used < 56 ? 56 : 120) - used;
  for (size_t i = 0; i < 8; ++i) tail[padding + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(std::span(tail).first(padding + 8));
  std::string digits;
  for (const uint32_t word : state_) digits += fmt::format("{:08x}", word);
  return digits;
}

void Sha256::compress_portable(State& state, const std::byte* blocks, size_t count) {
  for (; count > 0; --count, blocks += kBlock) {
    std::array<uint32_t, 64> words{};
    for (size_t i = 0; i < 16; ++i) words[i] = load_big_endian(blocks + 4 * i);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t early = words[i - 15], late = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ (early >> 3)) +
                 (std::rotr(late, 17) ^ std::rotr(late, 19) ^ (late >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t first =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRoundConstants[i] + words[i];
      const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const State mixed = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state.size(); ++i) state[i] += mixed[i];
  }
}

#if defined(__x86_64__)
// The instructions keep the state as the words ABEF and CDGH, and two of them compute four rounds. One register has the message
// words of four rounds; the next ones are computed from those of the last sixteen rounds.
__attribute__((target("sha,sse4.1"))) void Sha256::compress_sha_ni(State& state, const std::byte* blocks, size_t count) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto [a, b, c, d, e, f, g, h] = std::bit_cast<std::array<int, 8>>(state);
  __m128i abef = _mm_set_epi32(a, b, e, f), cdgh = _mm_set_epi32(c, d, g, h);
  for (; count > 0; --count, blocks += kBlock) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
  #pragma GCC unroll 16
    for (size_t group = 0; group < 16; ++group) {
      __m128i& current = words[group % 4];
      if (group < 4) {
        current = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(blocks) + group), byte_order);
      } else {
        const __m128i back1 = words[(group + 3) % 4], back2 = words[(group + 2) % 4], back3 = words[(group + 1) % 4];
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(current, back3), _mm_alignr_epi8(back1, back2, 4));
        current = _mm_sha256msg2_epu32(sum, back1);
      }
      const __m128i keyed =
          _mm_add_epi32(current, _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants.data()) + group));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const auto feba = std::bit_cast<std::array<uint32_t, 4>>(abef), hgdc = std::bit_cast<std::array<uint32_t, 4>>(cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}
#else
void Sha256::compress_sha_ni(State& state, const std::byte* blocks, size_t count) { compress_portable(state, blocks, count); }
#endif

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

}  // namespace trireme
