#include "base/sha256.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/file.h"

namespace trireme {
namespace {

std::string sha256_of(std::string_view text, Sha256::Instructions instructions) {
  Sha256 hash(instructions);
  hash.add(bytes_of(text));
  return hash.finish();
}

class Sha256Test : public testing::TestWithParam<Sha256::Instructions> {};

// The examples of FIPS 180-2, appendix B.
TEST_P(Sha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_of("", GetParam()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc", GetParam()), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", GetParam()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(std::string(1000000, 'a'), GetParam()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_P(Sha256Test, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 7 + i / 13));
  const std::string whole = sha256_of(text, Sha256::Instructions::portable);
  for (const size_t piece : {1, 3, 55, 56, 63, 64, 65, 127, 128, 200}) {
    Sha256 hash(GetParam());
    for (size_t at = 0; at < text.size(); at += piece) hash.add(bytes_of(std::string_view(text).substr(at, piece)));
    EXPECT_EQ(hash.bytes(), 1000);
    EXPECT_EQ(hash.finish(), whole) << "pieces of " << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Instructions, Sha256Test, testing::Values(Sha256::Instructions::best, Sha256::Instructions::portable),
                         [](const auto& test) { return test.param == Sha256::Instructions::best ? "best" : "portable"; });

TEST(IsSha256, Takes64HexadecimalDigits) {
  EXPECT_TRUE(is_sha256("E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
  EXPECT_FALSE(is_sha256("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85"));
  EXPECT_FALSE(is_sha256("g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}

}  // namespace
}  // namespace trireme
