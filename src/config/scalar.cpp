// How unquoted scalars are parsed. NeMo recipes are read by a YAML 1.1 loader in which 1e-4 is a number too. One rule of that
// loader is left out because it surprises users: 1:30 is not a number of seconds and stays a string.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "config/tree.h"

namespace trireme {

namespace {

template <size_t count>
bool is_one_of(std::string_view text, const std::array<std::string_view, count>& words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes the underscores of 1_000_000; nullopt if one is not between digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return plain;
}

struct Number {
  bool negative = false;
  std::string digits;  // the text after the sign
};

std::optional<Tree> integer_from(const Number& number, const Origin& origin) {
  std::string_view digits = number.digits;
  int base = 10;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (digits.starts_with("0b")) base = 2;
  if (base != 10) digits.remove_prefix(2);
  if (digits.empty() || (base == 10 && !std::ranges::all_of(digits, is_digit))) return std::nullopt;
  if (base == 10 && digits.size() > 1 && digits[0] == '0') return std::nullopt;
  const std::string signed_digits = (number.negative ? "-" : "") + std::string(digits);
  const char* end = signed_digits.data() + signed_digits.size();
  int64_t value = 0;
  const auto [stop, failed] = std::from_chars(signed_digits.data(), end, value, base);
  if (stop != end || failed != std::errc{}) return std::nullopt;  // integers that are too large are parsed as reals
  return Tree(value, origin);
}

std::optional<Tree> real_from(const Number& number, const Origin& origin) {
  if (number.digits == ".inf" || number.digits == ".Inf" || number.digits == ".INF")
    return Tree(number.negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity(), origin);
  const bool looks_real = std::ranges::any_of(number.digits, is_digit) &&
                          (is_digit(number.digits[0]) || number.digits[0] == '.') &&
                          number.digits.find_first_not_of("0123456789.eE+-") == std::string::npos;
  const bool leading_zero = number.digits.size() > 1 && number.digits[0] == '0' && is_digit(number.digits[1]);
  if (!looks_real || leading_zero) return std::nullopt;
  double value = 0;
  const char* end = number.digits.data() + number.digits.size();
  const auto [stop, failed] = std::from_chars(number.digits.data(), end, value);
  if (stop != end || failed != std::errc{}) return std::nullopt;
  return Tree(number.negative ? -value : value, origin);
}

}  // namespace

Tree scalar_from_text(std::string_view text, Origin origin) {
  static constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
  static constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
  static constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"};
  if (is_one_of(text, kNull)) {
    Tree null;
    null.origin = std::move(origin);
    return null;
  }
  if (is_one_of(text, kTrue)) return Tree(true, std::move(origin));
  if (is_one_of(text, kFalse)) return Tree(false, std::move(origin));
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return Tree(std::nan(""), std::move(origin));

  const bool has_sign = text[0] == '-' || text[0] == '+';
  if (const auto digits = without_underscores(text.substr(has_sign ? 1 : 0)); digits && !digits->empty()) {
    const Number number{text[0] == '-', *digits};
    if (auto integer = integer_from(number, origin)) return *integer;
    if (auto real = real_from(number, origin)) return *real;
  }
  return Tree(std::string(text), std::move(origin));
}

Tree yaml_scalar(std::string_view text, Origin origin) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::string_view digits = text.substr(has_sign ? 1 : 0);
  if (digits.size() < 2 || digits[0] != '0' || !is_digit(digits[1])) return scalar_from_text(text, std::move(origin));
  std::string plain(text.substr(0, has_sign ? 1 : 0));
  if (digits.find_first_not_of("01234567") == std::string_view::npos)
    plain += "0o" + std::string(digits);
  else if (digits.find_first_of(".eE") != std::string_view::npos)
    plain += digits.substr(std::min(digits.find_first_not_of('0'), digits.find_first_of(".eE") - 1));
  else
    plain = text;
  Tree value = scalar_from_text(plain, origin);
  return value.is_string() ? Tree(std::string(text), std::move(origin)) : value;
}

std::string real_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace trireme
