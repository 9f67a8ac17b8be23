// Extracts a document's text from one line of JSON: the string under one key of the top-level object. The whole line is checked,
// but only the wanted text is built.
//
// As in Python's json module: keys may be escaped, the last of equal keys counts, NaN and Infinity are numbers, and a lone
// surrogate becomes U+FFFD. As in lm_dataformat: a line may be a bare string, and the text may be a list of strings, which are
// joined by an empty line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trireme::prepare {

enum class LineStatus : uint8_t {
  text,
  blank,      // white space only
  malformed,  // not JSON
  no_key,     // an object without the key, or not an object
  not_text,   // the key's value is not text
};

struct LineText {
  LineStatus status = LineStatus::text;
  std::string_view text;  // a view of the line if nothing was escaped, else of the scratch
  bool ascii = true;      // the line has no byte of 128 or more in the text, so its UTF-8 needs no check
  int64_t lone_surrogates = 0;
  const char* problem = "";  // set if the line is malformed
  size_t problem_at = 0;     // byte offset in the line
};

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // may start a file; not part of its first line

// Returns why a line that is not blank has no text, without the line's position.
std::string describe_problem(const LineText& line, const std::string& key);

// Holds unescaped texts. It has room for all texts of as many bytes of lines as it was reset for.
class TextScratch {
 public:
  static constexpr size_t kSlack = 64;

  void reset(size_t line_bytes);  // drops all texts
  void release();                 // frees the memory
  size_t capacity() const { return capacity_; }

  char* at() { return at_; }
  void end_at(char* end) { at_ = end; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;
  char* at_ = nullptr;
};

class JsonLineReader {
 public:
  explicit JsonLineReader(std::string key) : key_(std::move(key)) {}

  // `line` excludes its line feed. The scratch must have been reset for at least its length.
  LineText read(std::string_view line, TextScratch& scratch) const;

 private:
  std::string key_;
};

}  // namespace trireme::prepare
