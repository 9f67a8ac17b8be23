// Samples cut from the documents of a corpus in the order of a GptIndex. Each target is the next token. A sample may cross
// document ends, and the end-of-document token is a target like any other. An incomplete last sample is padded with token 0 and
// masked targets.
#pragma once

#include <memory>
#include <string>

#include "data/corpus.h"
#include "data/dataset.h"
#include "data/samples/gpt_index.h"

namespace trireme {

class GptDataset final : public Dataset {
 public:
  // `name` is the corpus's name in messages.
  GptDataset(std::shared_ptr<const Corpus> corpus, GptIndex index, const GptIndexRequest& request, int64_t vocabulary,
             std::string name);

  int64_t size() const override { return index_.samples(); }
  int64_t epoch_size() const override;
  int64_t sequence() const override { return request_.sequence; }
  int64_t vocabulary() const override { return vocabulary_; }

  const GptIndex& index() const { return index_; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  // Advances from `at` by `count` tokens across documents, but not beyond `end`. Returns how many tokens there were. Calls
  // visit(document, offset, tokens before it, tokens in it) for each piece of a document.
  template <class Visit>
  int64_t advance(TokenPosition& at, const TokenPosition& end, int64_t count, const Visit& visit) const;
  int64_t read_on(TokenPosition& at, const TokenPosition& end, std::span<int32_t> tokens) const;
  void ask_for_places(const TokenPosition& begin, const TokenPosition& end) const;
  void check_tokens(std::span<const int32_t> tokens, int64_t index) const;

  std::shared_ptr<const Corpus> corpus_;
  GptIndex index_;
  GptIndexRequest request_;
  int64_t vocabulary_;
  std::string name_;
};

}  // namespace trireme
