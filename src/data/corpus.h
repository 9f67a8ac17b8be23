// Documents of tokens, wherever they lie.
#pragma once

#include <cstdint>
#include <span>

#include "data/document_lengths.h"

namespace trireme {

class Corpus {
 public:
  virtual ~Corpus() = default;

  virtual DocumentLengths document_lengths() const = 0;  // tokens, with the end-of-document token

  // Tokens [offset, offset + tokens.size()) of a document, which must lie inside it. Allocates nothing; thread-safe.
  virtual void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const = 0;

  // Have the system bring from the disk what tells where a document lies, and then its tokens from an offset on, without waiting
  // for it.
  virtual void ask_for_place(int64_t /*document*/) const {}
  virtual void ask_for_tokens(int64_t /*document*/, int64_t /*offset*/) const {}
};

}  // namespace trireme
