#include "data/json_text.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "data/tokenizer/unicode.h"

namespace trireme {
namespace {

constexpr size_t kMaxDepth = 1000;

// Reads JSON from the beginning to the end; false and a place where it is none.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }

  bool take(char wanted) {
    if (at_end() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // A string from its quote on. `value` is a part of the text, or, if it has escapes, in `unescaped`. Lone surrogates are
  // counted.
  bool read_string(std::string_view& value, std::string& unescaped, int64_t& surrogates) {
    if (!take('"')) return false;
    const size_t begin = at_;
    skip_plain();
    if (peek() == '"') {
      value = text_.substr(begin, at_ - begin);
      return take('"');
    }
    unescaped.assign(text_, begin, at_ - begin);
    while (!at_end() && text_[at_] == '\\') {
      if (!read_escape(unescaped, surrogates)) return false;
      const size_t plain = at_;
      skip_plain();
      unescaped.append(text_, plain, at_ - plain);
    }
    value = unescaped;
    return take('"');
  }

  // Any value; what is in it is forgotten.
  bool skip_value() {
    std::string closers;  // of the arrays and objects around
    for (;;) {
      skip_space();
      if (peek() == '{' || peek() == '[') {
        if (closers.size() == kMaxDepth) return false;
        closers.push_back(text_[at_++] == '{' ? '}' : ']');
        skip_space();
        if (!take(closers.back())) {
          if (closers.back() == '}' && !skip_key()) return false;
          continue;
        }
        closers.pop_back();
      } else if (!skip_scalar()) {
        return false;
      }
      for (;;) {  // after a value
        if (closers.empty()) return true;
        skip_space();
        if (take(',')) {
          skip_space();
          if (closers.back() == '}' && !skip_key()) return false;
          break;
        }
        if (!take(closers.back())) return false;
        closers.pop_back();
      }
    }
  }

 private:
  // To the next quote, backslash or control character.
  void skip_plain() {
    constexpr uint64_t kOnes = 0x0101010101010101U, kHighs = 0x8080808080808080U;
    const auto zero_bytes = [](uint64_t eight) { return (eight - kOnes) & ~eight & kHighs; };
    while (at_ + 8 <= text_.size()) {
      uint64_t eight = 0;
      std::memcpy(&eight, text_.data() + at_, 8);
      const uint64_t control = (eight - kOnes * 0x20) & ~eight & kHighs;
      const uint64_t stops = zero_bytes(eight ^ kOnes * '"') | zero_bytes(eight ^ kOnes * '\\') | control;
      if (stops != 0) break;
      at_ += 8;
    }
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' && static_cast<uint8_t>(text_[at_]) >= 0x20) ++at_;
  }

  bool read_escape(std::string& out, int64_t& surrogates) {
    ++at_;
    static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    if (const size_t named = at_end() ? std::string_view::npos : kNames.find(text_[at_]); named != std::string_view::npos) {
      out.push_back(kValues[named]);
      ++at_;
      return true;
    }
    uint32_t unit = 0;
    if (!read_unit(unit)) return false;
    if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      const size_t before = at_;
      uint32_t low = 0;
      ++at_;
      if (!read_unit(low)) return false;
      if (low >= 0xDC00 && low < 0xE000) {
        append_utf8(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), out);
        return true;
      }
      at_ = before;
    }
    const bool lone = unit >= 0xD800 && unit < 0xE000;
    surrogates += lone ? 1 : 0;
    append_utf8(lone ? 0xFFFD : unit, out);
    return true;
  }

  bool read_unit(uint32_t& unit) {  // uXXXX
    if (text_.size() - at_ < 5 || text_[at_] != 'u') return false;
    unit = 0;
    for (int i = 0; i < 4; ++i) {
      const char digit = text_[++at_];
      const auto lower = static_cast<char>(digit | 0x20);
      uint32_t value = 0;
      if ('0' <= digit && digit <= '9')
        value = static_cast<uint32_t>(digit - '0');
      else if ('a' <= lower && lower <= 'f')
        value = static_cast<uint32_t>(lower - 'a') + 10;
      else
        return false;
      unit = unit << 4 | value;
    }
    ++at_;
    return true;
  }

  bool skip_key() {
    std::string_view key;
    int64_t surrogates = 0;
    if (!read_string(key, scratch_, surrogates)) return false;
    skip_space();
    return take(':');
  }

  bool skip_scalar() {
    if (peek() == '"') {
      std::string_view value;
      int64_t surrogates = 0;
      return read_string(value, scratch_, surrogates);
    }
    for (const std::string_view word : {"true", "false", "null"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return true;
      }
    return skip_number();
  }

  bool skip_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && '0' <= text_[at_] && text_[at_] <= '9') ++at_;
    return at_ != begin;
  }

  bool skip_number() {
    take('-');
    if (!take('0') && !skip_digits()) return false;
    if (take('.') && !skip_digits()) return false;
    if (!take('e') && !take('E')) return true;
    if (!take('+')) take('-');
    return skip_digits();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string scratch_;
};

}  // namespace

JsonText JsonTextReader::read(std::string_view line) {
  Scanner scanner(line);
  JsonText found{.status = JsonText::Status::no_key};
  const auto malformed = [&] { return JsonText{.status = JsonText::Status::malformed, .at = scanner.at()}; };
  scanner.skip_space();
  if (!scanner.take('{')) return malformed();
  scanner.skip_space();
  for (bool first = true; !scanner.take('}'); first = false) {
    if (!first && !scanner.take(',')) return malformed();
    scanner.skip_space();
    std::string_view key;
    int64_t ignored = 0;
    if (!scanner.read_string(key, unescaped_key_, ignored)) return malformed();
    scanner.skip_space();
    if (!scanner.take(':')) return malformed();
    scanner.skip_space();
    if (key == key_) {
      found = {.status = scanner.peek() == '"' ? JsonText::Status::found : JsonText::Status::not_text};
      const bool good = found.status == JsonText::Status::found ? scanner.read_string(found.text, unescaped_, found.surrogates)
                                                                : scanner.skip_value();
      if (!good) return malformed();
    } else if (!scanner.skip_value()) {
      return malformed();
    }
    scanner.skip_space();
  }
  scanner.skip_space();
  if (!scanner.at_end()) return malformed();
  found.invalid_utf8 = repair_utf8(found.text, repaired_);
  if (found.invalid_utf8 != 0) found.text = repaired_;
  return found;
}

std::string JsonTextReader::describe(const JsonText& problem) const {
  switch (problem.status) {
    case JsonText::Status::malformed:
      return fmt::format("not a JSON object, from byte {} on", problem.at);
    case JsonText::Status::no_key:
      return fmt::format("no \"{}\" in it", key_);
    case JsonText::Status::not_text:
      return fmt::format("its \"{}\" is not a string", key_);
    case JsonText::Status::found:
      break;
  }
  return "nothing is wrong with it";
}

}  // namespace trireme
