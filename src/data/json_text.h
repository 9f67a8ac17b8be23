// The text of a line of a .jsonl file: the value of one key of the object that the line is. The whole line is checked; nothing
// but the text is kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

struct JsonText {
  enum class Status : uint8_t { found, malformed, no_key, not_text };

  Status status = Status::malformed;
  std::string_view text;     // until the next line is read, or the line goes
  size_t at = 0;             // malformed: the byte of the line where it ceases to be JSON
  int64_t surrogates = 0;    // \uD800 to \uDFFF without their other half, each now U+FFFD
  int64_t invalid_utf8 = 0;  // sequences that are not UTF-8, each now U+FFFD
};

class JsonTextReader {
 public:
  explicit JsonTextReader(std::string key) : key_(std::move(key)) {}

  // The last value counts when the key is there more than once. White space around the object is fine, a line break too.
  JsonText read(std::string_view line);

  // What is wrong with a line, in words: "not JSON at byte 7", "no \"text\" in it", ...
  std::string describe(const JsonText& problem) const;

 private:
  std::string key_, unescaped_, repaired_, unescaped_key_;
};

}  // namespace trireme
