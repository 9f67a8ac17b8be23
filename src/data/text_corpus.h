// Text files as a corpus in memory: each file is a document, closed by the end-of-document token.
//
// One text file is often the whole corpus, so a split is not a range of documents here but a range of the tokens of all files
// laid end to end: training has the first part, validation the next, test the last. A document that crosses a boundary is cut
// there, and its first part has no end-of-document token.
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/splits.h"
#include "data/tokenizer.h"

namespace trireme {

class TextCorpus final : public Corpus {
 public:
  TextCorpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const SplitFractions& fractions, Split split);

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  DocumentLengths document_lengths() const override { return lengths_; }
  void read(int64_t document, int64_t offset, std::span<int32_t> tokens) const override;

 private:
  std::vector<uint16_t> tokens_;  // of the split alone; half the size of int32, and enough for every vocabulary used on text
  std::vector<int64_t> starts_;   // where in tokens_ each document begins
  std::vector<int64_t> lengths_;
};

}  // namespace trireme
