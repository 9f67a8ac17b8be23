#include "evaluate/python_literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr int kDeepest = 20;

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  Document read() {
    Document value = read_value(0);
    skip_blanks();
    if (!rest_.empty()) fail();
    return value;
  }

 private:
  [[noreturn]] void fail() const { throw WrongDocument(fmt::format("not a Python literal from \"{}\" on", rest_.substr(0, 30))); }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Document read_value(int depth) {
    if (depth > kDeepest) fail();
    if (take('[')) return read_list(depth, ']');
    if (take('(')) return read_list(depth, ')');
    if (take('{')) return read_map(depth);
    skip_blanks();
    if (rest_.starts_with('\'') || rest_.starts_with('"')) return read_text();
    for (const auto& [word, value] :
         {std::pair{"True", Document(true)}, std::pair{"False", Document(false)}, std::pair{"None", Document(nullptr)},
          std::pair{"true", Document(true)}, std::pair{"false", Document(false)}, std::pair{"null", Document(nullptr)}})
      if (rest_.starts_with(word)) return rest_.remove_prefix(std::string_view(word).size()), value;
    return read_number();
  }

  Document read_list(int depth, char close) {
    Document list = Document::array();
    while (!take(close)) {
      list.push_back(read_value(depth + 1));
      if (!take(',') && !rest_.starts_with(close)) fail();
    }
    return list;
  }

  Document read_map(int depth) {
    Document map = Document::object();
    while (!take('}')) {
      skip_blanks();
      if (!rest_.starts_with('\'') && !rest_.starts_with('"')) fail();
      const std::string key = read_text();
      if (!take(':')) fail();
      map[key] = read_value(depth + 1);
      if (!take(',') && !rest_.starts_with('}')) fail();
    }
    return map;
  }

  Document read_number() {
    double value = 0;
    const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failed != std::errc{}) fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<int64_t>(value);
    return value;
  }

  std::string read_text() {
    const char quote = rest_[0];
    rest_.remove_prefix(1);
    std::string out;
    while (!rest_.starts_with(quote)) {
      if (rest_.empty()) fail();
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (c != '\\')
        out += c;
      else
        read_escape(out);
    }
    rest_.remove_prefix(1);
    return out;
  }

  void read_escape(std::string& out) {
    if (rest_.empty()) fail();
    const char c = rest_[0];
    rest_.remove_prefix(1);
    constexpr std::string_view kPlain = "\\'\"/nrtbf", kMeanings = "\\'\"/\n\r\t\b\f";
    if (const size_t at = kPlain.find(c); at != kPlain.npos)
      out += kMeanings[at];
    else if (c == 'x' || c == 'u' || c == 'U')
      append_utf8(read_code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8), out);
    else
      out += '\\', out += c;
  }

  uint32_t read_hexadecimal(size_t digits) {
    uint32_t value = 0;
    const char* end = rest_.data() + std::min(digits, rest_.size());
    const auto [stop, failed] = std::from_chars(rest_.data(), end, value, 16);
    if (failed != std::errc{} || stop != rest_.data() + digits) fail();
    rest_.remove_prefix(digits);
    return value;
  }

  // JSON, which is a literal too, writes characters beyond 16 bits as two halves.
  uint32_t read_code_point(size_t digits) {
    const uint32_t value = read_hexadecimal(digits);
    const bool is_high_half = digits == 4 && value >= 0xD800 && value < 0xDC00;
    if (is_high_half && rest_.starts_with("\\u")) {
      rest_.remove_prefix(2);
      return 0x10000 + ((value - 0xD800) << 10) + (read_hexadecimal(4) - 0xDC00);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) fail();
    return value;
  }

  std::string_view rest_;
};

}  // namespace

Document read_python_literal(std::string_view text) { return LiteralReader(text).read(); }

}  // namespace trireme
