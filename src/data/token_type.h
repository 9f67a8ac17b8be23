// How token numbers are kept in files: the type codes of Megatron's .idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace trireme {

enum class TokenType : uint8_t { uint8 = 1, int8 = 2, int16 = 3, int32 = 4, int64 = 5, uint16 = 8, uint32 = 64 };
// uint32 is no .idx code: llm.c's files for large vocabularies have it.

const char* name_of(TokenType type);  // "uint16"
std::optional<TokenType> token_type_named(std::string_view name);
int64_t size_of(TokenType type);  // bytes

// The type of a code in an .idx; nothing for codes that are unknown or of floating-point numbers.
std::optional<TokenType> token_type_of_code(uint8_t code);

// What Megatron and NeMo write for a vocabulary: uint16 below 65500, else int32.
TokenType token_type_for(int64_t vocabulary);

// What nanoGPT, LitGPT and llm.c write: uint16 where every token fits, else uint32. Flat files do not say their type, so this is
// how it is known where nothing beside them does (flat_description.h).
TokenType flat_token_type_for(int64_t vocabulary);

// `to.size()` tokens from unaligned memory. A number that does not fit in int32 becomes the largest one, which is in no
// vocabulary.
void load_tokens(const std::byte* from, TokenType type, std::span<int32_t> to);

// Tokens as `type` keeps them, into unaligned memory of tokens.size() * size_of(type) bytes. UserError for one that does not fit.
void store_tokens(std::span<const int32_t> tokens, TokenType type, std::byte* to);

// A number in a file, which need not be aligned.
template <class T>
T load_at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace trireme
