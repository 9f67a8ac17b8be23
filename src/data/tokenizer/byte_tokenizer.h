// One token per byte: 0 to 255 are the byte values, 256 is the end of a document. Needs no files and is lossless.
#pragma once

#include "data/tokenizer/tokenizer.h"

namespace trireme {

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocabulary() const override { return 257; }
  int32_t end_of_document() const override { return 256; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  size_t last_cut(std::string_view text, size_t searched) const override;  // between any two characters
};

// The same tokenizer for transformers, as a tokenizer.json; what `trireme export` writes for models of bytes.
std::string byte_tokenizer_json();
bool is_byte_tokenizer(std::string_view tokenizer_json);

}  // namespace trireme
