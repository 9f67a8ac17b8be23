#include "data/text/text_corpus.h"

#include <algorithm>

#include "base/error.h"
#include "data/text/text_files.h"

namespace trireme {

TextCorpus::TextCorpus(const std::vector<std::string>& files, const Tokenizer& tokenizer, const SplitFractions& fractions,
                       Split split)
    : type_(token_type_for(tokenizer.vocabulary())) {
  std::vector<Range> documents;  // ranges in the concatenated tokens of all files
  for (const std::string& file : files) {
    std::vector<int32_t> encoded = tokenizer.encode(read_text_file(file));
    encoded.push_back(tokenizer.end_of_document());
    const int64_t begin = tokens();
    tokens_.resize(tokens_.size() + encoded.size() * static_cast<size_t>(size_of(type_)));
    store_tokens(encoded, type_, place_of(begin));
    documents.push_back({begin, tokens()});
  }

  const Range kept = split_range(fractions, split, tokens());
  tokens_.erase(tokens_.begin() + kept.end * size_of(type_), tokens_.end());
  tokens_.erase(tokens_.begin(), tokens_.begin() + kept.begin * size_of(type_));
  tokens_.shrink_to_fit();
  for (const Range& document : documents) {
    const int64_t begin = std::max(document.begin, kept.begin);
    const int64_t end = std::min(document.end, kept.end);
    if (begin >= end) continue;
    starts_.push_back(begin - kept.begin);
    lengths_.push_back(end - begin);
  }
}

void TextCorpus::read(int64_t document, int64_t offset, std::span<int32_t> tokens) const {
  const int64_t length = lengths_[static_cast<size_t>(document)];
  CHECK(0 <= offset && offset + static_cast<int64_t>(tokens.size()) <= length);
  load_tokens(tokens_.data() + (starts_[static_cast<size_t>(document)] + offset) * size_of(type_), type_, tokens);
}

}  // namespace trireme
