// Text files as a corpus in memory: each file is a document, closed by the end-of-document token.
//
// One text file is often the whole corpus. So a split is not a range of documents but a range of the concatenated tokens of all
// files: first training, then validation, then test. A document that crosses a boundary is cut there, and its first part has no
// end-of-document token.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/splits.h"
#include "data/token_type.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

class TextCorpus final : public Corpus {
 public:
  TextCorpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const SplitFractions& fractions, Split split);

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()) / size_of(type_); }
  DocumentLengths document_lengths() const override { return lengths_; }
  void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const override;

 private:
  std::byte* place_of(int64_t token) { return tokens_.data() + token * size_of(type_); }

  TokenType type_;
  std::vector<std::byte> tokens_;  // of this split only
  std::vector<int64_t> starts_;    // the first token of each document
  std::vector<int64_t> lengths_;
};

}  // namespace trireme
