// Takes the text of a document out of one line of JSON: the string under one key of the top-level object. The whole line is
// checked, but nothing is built from what is not asked for.
//
// As Python's json module reads it: keys may be escaped, of equal keys the last one counts, NaN and Infinity are numbers, a
// surrogate without its pair becomes U+FFFD. As lm_dataformat reads it: a line may be a bare string, and the text a list of
// strings, which are joined by an empty line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trireme::prepare {

enum class LineStatus : uint8_t {
  text,
  blank,      // nothing but white space
  malformed,  // no JSON
  no_key,     // an object without the key, or no object
  not_text,   // the key has a value that is no text
};

struct LineText {
  LineStatus status = LineStatus::text;
  std::string_view text;  // in the line where nothing was escaped, else in the scratch
  bool ascii = true;      // no byte of the text was 128 or more in the line: it needs no check of its UTF-8
  int64_t lone_surrogates = 0;
  const char* problem = "";  // of a malformed line
  size_t problem_at = 0;     // in bytes from the start of the line
};

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // may begin a file, and is no part of its first line

// What keeps a line that is not blank from having a text, in words that follow its place.
std::string describe_problem(const LineText& line, const std::string& key);

// Where unescaped texts go, one after the other. Has room for all texts of as many bytes of lines as it was made for.
class TextScratch {
 public:
  static constexpr size_t kSlack = 64;

  void reset(size_t line_bytes);  // forgets the texts
  void release();                 // gives the memory back
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

  // `line` is without its line feed. The scratch was reset for at least its length.
  LineText read(std::string_view line, TextScratch& scratch) const;

 private:
  std::string key_;
};

}  // namespace trireme::prepare
