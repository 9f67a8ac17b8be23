#include "data/token_type.h"

#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

struct TypeRow {
  TokenType type;
  const char* name;
  int64_t size;
  int64_t least, most;
};

template <class T>
constexpr TypeRow row(TokenType type, const char* name) {
  return {type, name, sizeof(T), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

constexpr std::array kTypes{row<uint8_t>(TokenType::uint8, "uint8"),   row<int8_t>(TokenType::int8, "int8"),
                            row<int16_t>(TokenType::int16, "int16"),   row<int32_t>(TokenType::int32, "int32"),
                            row<int64_t>(TokenType::int64, "int64"),   row<uint16_t>(TokenType::uint16, "uint16"),
                            row<uint32_t>(TokenType::uint32, "uint32")};

const TypeRow& row_of(TokenType type) {
  for (const TypeRow& candidate : kTypes)
    if (candidate.type == type) return candidate;
  check_failed(__FILE__, __LINE__, "every token type has a row");
}

template <class T>
void load_as(const std::byte* from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) < 4 || std::is_same_v<T, int32_t>) {
      to[i] = static_cast<int32_t>(value);  // NOLINT(bugprone-signed-char-misuse): a token of one byte is a number
    } else {
      constexpr auto kMost = std::numeric_limits<int32_t>::max();
      const bool fits = value <= static_cast<T>(kMost) && static_cast<int64_t>(value) >= std::numeric_limits<int32_t>::min();
      to[i] = fits ? static_cast<int32_t>(value) : kMost;
    }
  }
}

template <class T>
void store_as(std::span<const int32_t> tokens, std::byte* to) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

// Calls `function` with a value of the C++ type of `type`.
template <class Function>
void with_type(TokenType type, Function&& function) {
  switch (type) {
    case TokenType::uint8:
      return function(uint8_t{});
    case TokenType::int8:
      return function(int8_t{});
    case TokenType::int16:
      return function(int16_t{});
    case TokenType::int32:
      return function(int32_t{});
    case TokenType::int64:
      return function(int64_t{});
    case TokenType::uint16:
      return function(uint16_t{});
    case TokenType::uint32:
      return function(uint32_t{});
  }
}

}  // namespace

const char* name_of(TokenType type) { return row_of(type).name; }
int64_t size_of(TokenType type) { return row_of(type).size; }

std::optional<TokenType> token_type_named(std::string_view name) {
  for (const TypeRow& candidate : kTypes)
    if (candidate.name == name) return candidate.type;
  return std::nullopt;
}

std::optional<TokenType> token_type_of_code(uint8_t code) {
  for (const TypeRow& candidate : kTypes)
    if (static_cast<uint8_t>(candidate.type) == code && candidate.type != TokenType::uint32) return candidate.type;
  return std::nullopt;
}

TokenType token_type_for(int64_t vocabulary) { return vocabulary < 65500 ? TokenType::uint16 : TokenType::int32; }

TokenType flat_token_type_for(int64_t vocabulary) {
  return vocabulary - 1 <= std::numeric_limits<uint16_t>::max() ? TokenType::uint16 : TokenType::uint32;
}

void load_tokens(const std::byte* from, TokenType type, std::span<int32_t> to) {
  with_type(type, [&]<class T>(T) { load_as<T>(from, to); });
}

void store_tokens(std::span<const int32_t> tokens, TokenType type, std::byte* to) {
  const TypeRow& kind = row_of(type);
  for (const int32_t token : tokens)
    if (token < kind.least || token > kind.most) throw UserError("token {} does not fit in {}", token, kind.name);
  with_type(type, [&]<class T>(T) { store_as<T>(tokens, to); });
}

}  // namespace trireme
