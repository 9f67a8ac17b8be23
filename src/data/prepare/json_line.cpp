#include "data/prepare/json_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#ifdef __SSE2__
  #include <emmintrin.h>
#endif

#include "base/error.h"
#include "data/prepare/json_string.h"

namespace trireme::prepare {
namespace {

constexpr size_t kMaxDepth = 1024;

// Scans one line. Every function returns false if the line is malformed, after recording why and where.
class LineScanner {
 public:
  LineScanner(std::string_view line, const std::string& key, TextScratch& scratch)
      : begin_(line.data()), at_(begin_), end_(begin_ + line.size()), key_(key), scratch_(scratch) {}

  LineText read() {
    skip_space();
    if (at_ == end_) return {.status = LineStatus::blank};
    if (!read_line_value()) return {.status = LineStatus::malformed, .problem = problem_, .problem_at = problem_at_};
    return result_;
  }

 private:
  bool fail(const char* problem) {
    problem_ = problem;
    problem_at_ = static_cast<size_t>(at_ - begin_);
    return false;
  }

  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r' || *at_ == '\n')) ++at_;
  }
  bool next_is(char c) const { return at_ < end_ && *at_ == c; }
  bool take(char c) { return next_is(c) && (++at_, true); }

  bool read_line_value() {
    result_.status = LineStatus::no_key;
    bool good = false;
    if (take('{'))
      good = read_object();
    else if (next_is('"'))
      good = read_text();
    else
      good = skip_value();
    if (!good) return false;
    skip_space();
    return at_ == end_ || fail("something follows the JSON value");
  }

  bool read_object() {
    skip_space();
    if (take('}')) return true;
    do {
      skip_space();
      if (!take('"')) return fail("a key in quotes was expected");
      bool wanted = false;
      if (!read_key(wanted)) return false;
      skip_space();
      if (!take(':')) return fail("':' was expected after a key");
      skip_space();
      if (!(wanted ? read_wanted_value() : skip_value())) return false;
      skip_space();
    } while (take(','));
    return take('}') || fail("',' or '}' was expected after a value");
  }

  bool read_key(bool& wanted) {
    const size_t left = static_cast<size_t>(end_ - at_);
    if (left > key_.size() && at_[key_.size()] == '"' && std::memcmp(at_, key_.data(), key_.size()) == 0) {
      wanted = true;
      at_ += key_.size() + 1;
      return true;
    }
    const char* start = at_;
    if (!skip_string()) return false;
    const std::string_view raw(start, static_cast<size_t>(at_ - start) - 1);
    if (raw.find('\\') == std::string_view::npos) return true;  // differs without escapes, so it is another key
    char* mark = scratch_.at();
    LineText key;
    at_ = start;
    if (!unescape_string(key)) return false;
    wanted = key.text == key_;
    scratch_.end_at(mark);
    return true;
  }

  bool read_wanted_value() {
    if (next_is('"')) return read_text();
    if (next_is('[')) return read_list();
    result_.status = LineStatus::not_text;
    return skip_value();
  }

  bool read_text() {
    ++at_;
    result_ = {};
    return unescape_string(result_);
  }

  // Joins strings by an empty line. A list with anything else is not text, but must still be valid JSON.
  bool read_list() {
    const char* start = at_;
    LineText joined;
    char* to = scratch_.at();
    char* const joined_at = to;
    bool first = true;
    ++at_;
    skip_space();
    if (!take(']')) {
      do {
        skip_space();
        if (!take('"')) {
          result_.status = LineStatus::not_text;
          at_ = start;
          scratch_.end_at(joined_at);
          return skip_value();
        }
        if (!first) *to++ = '\n', *to++ = '\n';
        first = false;
        scratch_.end_at(to);
        LineText item;
        if (!unescape_string(item)) return false;
        to = std::copy(item.text.begin(), item.text.end(), to);
        joined.ascii &= item.ascii;
        joined.lone_surrogates += item.lone_surrogates;
        skip_space();
      } while (take(','));
      if (!take(']')) return fail("',' or ']' was expected after a value");
    }
    scratch_.end_at(to);
    joined.text = {joined_at, static_cast<size_t>(to - joined_at)};
    result_ = joined;
    return true;
  }

  // Starts after the opening quote; stops after the closing one.
  bool skip_string() {
    for (;;) {
      at_ += scan_run<Copy::no>(at_, end_, nullptr).length;
      if (take('"')) return true;
      if (at_ == end_) return fail("a string has no end");
      if (*at_ != '\\') return fail("a control character is in a string");
      if (!skip_escape()) return false;
    }
  }

  bool skip_escape() {
    if (end_ - at_ < 2) return fail("a string has no end");
    if (at_[1] == 'u') return read_hex() >= 0;
    if (kEscapes[static_cast<unsigned char>(at_[1])] == 0) return fail("an escape that JSON does not have");
    at_ += 2;
    return true;
  }

  // Reads \uXXXX at the current position; -1 on failure.
  int32_t read_hex() {
    if (end_ - at_ < 6) return fail("\\u needs four hexadecimal digits"), -1;
    const auto digit = [&](size_t i) { return int32_t{kHexDigits[static_cast<unsigned char>(at_[i])]}; };
    const int32_t value = digit(2) << 12 | digit(3) << 8 | digit(4) << 4 | digit(5);
    if (value < 0) return fail("\\u needs four hexadecimal digits"), -1;
    at_ += 6;
    return value;
  }

  // Starts after the opening quote. The text stays a view of the line unless it contains an escape.
  bool unescape_string(LineText& out) {
    const char* start = at_;
    Run run = scan_run<Copy::no>(at_, end_, nullptr);
    at_ += run.length;
    out.ascii = !run.high;
    if (take('"')) {
      out.text = {start, run.length};
      return true;
    }
    char* const text = scratch_.at();
    std::memcpy(text, start, run.length);
    char* to = text + run.length;
    for (;;) {
      if (at_ == end_) return fail("a string has no end");
      if (take('"')) break;
      if (*at_ != '\\') return fail("a control character is in a string");
      if (!unescape(to, out.lone_surrogates)) return false;
      run = scan_run<Copy::yes>(at_, end_, to);
      at_ += run.length;
      to += run.length;
      out.ascii &= !run.high;
    }
    out.text = {text, static_cast<size_t>(to - text)};
    scratch_.end_at(to);
    return true;
  }

  bool unescape(char*& to, int64_t& lone_surrogates) {
    const char simple = end_ - at_ < 2 ? '\0' : kEscapes[static_cast<unsigned char>(at_[1])];
    if (simple != '\0') {
      *to++ = simple;
      at_ += 2;
      return true;
    }
    if (end_ - at_ < 2 || at_[1] != 'u') return skip_escape();
    const int32_t unit = read_hex();
    if (unit < 0) return false;
    auto code_point = static_cast<uint32_t>(unit);
    if (code_point >= 0xD800 && code_point < 0xE000) {
      code_point = join_surrogates(code_point);
      lone_surrogates += code_point == kReplacement ? 1 : 0;
    }
    to = put_code_point(code_point, to);
    return true;
  }

  // Returns the code point of a surrogate pair whose first half was read, or the replacement character for a lone half.
  uint32_t join_surrogates(uint32_t first) {
    if (first >= 0xDC00 || end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return kReplacement;
    const auto digit = [&](size_t i) { return int32_t{kHexDigits[static_cast<unsigned char>(at_[i])]}; };
    const int32_t second = digit(2) << 12 | digit(3) << 8 | digit(4) << 4 | digit(5);
    if (second < 0xDC00 || second >= 0xE000) return kReplacement;  // not a low surrogate; it is read again as an ordinary escape
    at_ += 6;
    return 0x10000 + ((first - 0xD800) << 10 | (static_cast<uint32_t>(second) - 0xDC00));
  }

  // Checks and skips any value. Nesting is counted, not recursive.
  bool skip_value() {
    std::array<char, kMaxDepth> closers;
    size_t depth = 0;
    for (;;) {
      skip_space();
      if (take('{') || take('[')) {
        const char closer = at_[-1] == '{' ? '}' : ']';
        skip_space();
        if (!take(closer)) {
          if (depth == kMaxDepth) return fail("nested deeper than 1024");
          closers[depth++] = closer;
          if (closer == '}' && !skip_key()) return false;
          continue;
        }
      } else if (!skip_scalar()) {
        return false;
      }
      for (;; --depth) {
        if (depth == 0) return true;
        skip_space();
        if (take(',')) break;
        if (!take(closers[depth - 1])) return fail("',' or a closing bracket was expected after a value");
      }
      if (closers[depth - 1] == '}' && !skip_key()) return false;
    }
  }

  bool skip_key() {
    skip_space();
    if (!take('"')) return fail("a key in quotes was expected");
    if (!skip_string()) return false;
    skip_space();
    return take(':') || fail("':' was expected after a key");
  }

  bool skip_scalar() {
    if (take('"')) return skip_string();
    for (const std::string_view word : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
      if (std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return at_ += word.size(), true;
    return skip_number();
  }

  bool skip_digits() {
    const char* start = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ > start;
  }

  bool skip_number() {
    const char* start = at_;
    take('-');
    if (!take('0') && !skip_digits()) return at_ = start, fail(at_ == end_ ? "the line ends early" : "a value was expected");
    if (take('.') && !skip_digits()) return fail("a number ends in its middle");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!skip_digits()) return fail("a number ends in its middle");
    }
    return true;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  const std::string& key_;
  TextScratch& scratch_;
  LineText result_;
  const char* problem_ = "";
  size_t problem_at_ = 0;
};

}  // namespace

std::string describe_problem(const LineText& line, const std::string& key) {
  switch (line.status) {
    case LineStatus::malformed:
      return fmt::format("not JSON: {}", line.problem);
    case LineStatus::no_key:
      return fmt::format("no key \"{}\"; --key names another", key);
    case LineStatus::not_text:
      return fmt::format("the value of \"{}\" is no text", key);
    case LineStatus::text:
    case LineStatus::blank:
      break;
  }
  CHECK_NEVER("a line with a text, or a blank one, has no problem");
}

void TextScratch::reset(size_t line_bytes) {
  if (capacity_ < line_bytes + kSlack) {
    release();
    capacity_ = line_bytes + kSlack;
    bytes_.reset(new char[capacity_]);
  }
  at_ = bytes_.get();
}

void TextScratch::release() {
  bytes_.reset();
  capacity_ = 0;
  at_ = nullptr;
}

LineText JsonLineReader::read(std::string_view line, TextScratch& scratch) const {
  return LineScanner(line, key_, scratch).read();
}

}  // namespace trireme::prepare
