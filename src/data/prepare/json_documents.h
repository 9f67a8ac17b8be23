// The documents of a stream of JSON lines, one after the other, for commands that read them on one thread. Lines are read by
// JsonLineReader, so that every command takes the same input as `trireme data prepare`.
#pragma once

#include <optional>
#include <string>

#include "data/prepare/byte_source.h"
#include "data/prepare/json_line.h"

namespace trireme::prepare {

struct JsonDocument {
  std::string_view text;                          // UTF-8; until the next document is read
  std::string problem;                            // why the line has no text; empty: it has
  int64_t line = 0;                               // from 1
  int64_t lone_surrogates = 0, invalid_utf8 = 0;  // replaced by U+FFFD
};

class JsonDocuments {
 public:
  // `source` must outlive this object.
  JsonDocuments(ByteSource& source, std::string key) : source_(source), key_(std::move(key)), reader_(key_) {}

  // The next line that is not blank; nothing at the end. A byte order mark at the beginning is passed over.
  std::optional<JsonDocument> next();

 private:
  std::optional<std::string_view> next_line();

  ByteSource& source_;
  std::string key_;
  JsonLineReader reader_;
  TextScratch scratch_;
  std::string buffer_, repaired_;
  size_t at_ = 0;  // in the buffer: where the next line begins
  int64_t line_ = 0;
  bool ended_ = false;
};

}  // namespace trireme::prepare
