#include <gtest/gtest.h>

#include "data/tokenizer/tokenizer_fixtures.h"

namespace trireme {
namespace {

// The work of a long word is counted in pairs looked up: a few for each byte, whatever the bytes are.
TEST(BpeEncoder, LongWordsTakeWorkInProportion) {
  const BpeDefinition definition = small_definition();
  constexpr size_t kBytes = 10'000'000;
  std::string noise(kBytes, 'a');
  std::mt19937 random(3);
  for (char& byte : noise) byte = "ab"[random() % 2];
  for (const std::string& text : {std::string(kBytes, 'a'), std::string(kBytes, ' '), std::string(kBytes, '='), noise}) {
    BpeEncoder encoder(definition.model, WordPattern::gpt2);
    TokenBuffer tokens;
    encoder.encode(text, tokens);
    std::string decoded;
    for (const int32_t token : tokens.tokens()) decoded += definition.model.bytes(token);
    ASSERT_EQ(decoded, text);
    EXPECT_LT(encoder.merge_operations(), static_cast<int64_t>(6 * kBytes));
  }
}

}  // namespace
}  // namespace trireme
