// Reads the documents of a stream of JSON lines on one thread. It uses JsonLineReader, so every command accepts the same input as
// `trireme data prepare`.
#pragma once

#include <optional>
#include <string>

#include "data/prepare/byte_source.h"
#include "data/prepare/json_line.h"

namespace trireme::prepare {

struct JsonDocument {
  std::string_view text;                          // UTF-8; valid until the next document is read
  std::string problem;                            // why the line has no text; empty if it has
  int64_t line = 0;                               // counted from 1
  int64_t lone_surrogates = 0, invalid_utf8 = 0;  // replaced by U+FFFD
};

class JsonDocuments {
 public:
  // `source` must outlive this object.
  JsonDocuments(ByteSource& source, std::string key) : source_(source), key_(std::move(key)), reader_(key_) {}

  // Returns the next line that is not blank, or nothing at the end. Skips a byte order mark at the start.
  std::optional<JsonDocument> next();

 private:
  std::optional<std::string_view> next_line();

  ByteSource& source_;
  std::string key_;
  JsonLineReader reader_;
  TextScratch scratch_;
  std::string buffer_, repaired_;
  size_t at_ = 0;  // start of the next line in the buffer
  int64_t line_ = 0;
  bool ended_ = false;
};

}  // namespace trireme::prepare
