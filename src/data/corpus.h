// Tokenized documents, independent of their storage.
#pragma once

#include <cstdint>
#include <span>

#include "data/document_lengths.h"

namespace trireme {

class Corpus {
 public:
  virtual ~Corpus() = default;

  virtual DocumentLengths document_lengths() const = 0;  // tokens per document, including the end-of-document token

  // Reads tokens [offset, offset + tokens.size()) of a document; the range must be inside it. Allocates nothing; thread-safe.
  virtual void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const = 0;

  // Prefetch hints that do not block: first the index entry of a document, then its tokens from an offset.
  virtual void ask_for_place(int64_t /*document*/) const {}
  virtual void ask_for_tokens(int64_t /*document*/, int64_t /*offset*/) const {}
};

}  // namespace trireme
