// The integer types of tokens in files: the type codes of Megatron's .idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace trireme {

enum class TokenType : uint8_t { uint8 = 1, int8 = 2, int16 = 3, int32 = 4, int64 = 5, uint16 = 8, uint32 = 64 };
// uint32 has no .idx code; llm.c uses it for large vocabularies.

const char* name_of(TokenType type);  // "uint16"
std::optional<TokenType> token_type_named(std::string_view name);
int64_t size_of(TokenType type);  // bytes

// Returns the type of an .idx code, or nothing for unknown and floating-point codes.
std::optional<TokenType> token_type_of_code(uint8_t code);

// Returns the type that Megatron and NeMo use for a vocabulary: uint16 below 65500, else int32.
TokenType token_type_for(int64_t vocabulary);

// Returns the type that nanoGPT, LitGPT and llm.c use: uint16 if every token fits, else uint32. Flat files do not record their
// type, so this applies if there is no description (flat_description.h).
TokenType flat_token_type_for(int64_t vocabulary);

// Loads `to.size()` tokens from unaligned memory. A number that does not fit in int32 becomes the largest int32, which is in no
// vocabulary.
void load_tokens(const std::byte* from, TokenType type, std::span<int32_t> to);

// Stores tokens as `type` into unaligned memory of tokens.size() * size_of(type) bytes. UserError if a token does not fit.
void store_tokens(std::span<const int32_t> tokens, TokenType type, std::byte* to);

// Loads a number that need not be aligned.
template <class T>
T load_at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace trireme
