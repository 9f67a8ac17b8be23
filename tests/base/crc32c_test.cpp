#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "base/philox.h"

namespace trireme {
namespace {

// The vectors of RFC 3720, appendix B.4, and the check value of the polynomial.
TEST(Crc32c, KnownVectors) {
  std::string rising(32, '\0'), falling(32, '\0');
  for (size_t i = 0; i < 32; ++i) {
    rising[i] = static_cast<char>(i);
    falling[i] = static_cast<char>(31 - i);
  }
  const std::vector<std::pair<std::string, uint32_t>> vectors = {{"", 0x00000000},
                                                                 {"a", 0xC1D04330},
                                                                 {"123456789", 0xE3069283},
                                                                 {std::string(32, '\0'), 0x8A9136AA},
                                                                 {std::string(32, '\xff'), 0x62A8AB43},
                                                                 {rising, 0x46DD794E},
                                                                 {falling, 0x113FDB5C}};
  for (const auto& [text, expected] : vectors) {
    EXPECT_EQ(crc32c(bytes_of(text)), expected) << text;
    EXPECT_EQ(crc32c_portable(bytes_of(text)), expected) << text;
  }
}

// Every length and alignment around the eight bytes taken at once, whole and cut in two.
TEST(Crc32c, PiecesAndPathsAgree) {
  std::vector<uint32_t> words;
  for (uint32_t i = 0; i < 32; ++i)
    for (const uint32_t word : philox(7, {i, 0, 0, 0})) words.push_back(word);
  const auto all = std::as_bytes(std::span(words));
  for (size_t begin = 0; begin < 9; ++begin)
    for (size_t length = 0; length < 40; ++length) {
      const auto bytes = all.subspan(begin, length);
      const uint32_t whole = crc32c_portable(bytes);
      EXPECT_EQ(crc32c(bytes), whole);
      for (size_t cut = 0; cut <= length; ++cut) {
        EXPECT_EQ(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))), whole);
        EXPECT_EQ(crc32c_portable(bytes.subspan(cut), crc32c_portable(bytes.first(cut))), whole);
      }
    }
}

}  // namespace
}  // namespace trireme
