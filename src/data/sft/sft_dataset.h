// Supervised fine-tuning: examples of a prompt and a response, as JSON lines. Only the response and the token that ends it count
// in the loss. Several examples share a sample; the end token between them keeps their positions and their attention apart
// (DocumentRules). What is left of a sample is end tokens without a loss.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct SftExample {
  std::vector<int32_t> tokens;  // prompt, then response, without the end token
  int64_t response = 0;         // number of the first token of the response
  std::string place;            // "chats.jsonl, line 3"
};

struct SftText {
  std::string prompt_template;  // "{input} {output}"; ends with {label_key}
  std::string label_key;
};

// UserError, naming the file and the line, for text that is not JSON and for fields that are missing or not texts.
std::vector<SftExample> read_sft_examples(const std::vector<std::string>& files, const SftText& text, const Tokenizer& tokenizer);

struct SftPacking {
  int64_t sequence = 0;
  int64_t samples_needed = 0;  // 0: one pass over the examples
  uint64_t seed = 0;
  int32_t end_token = 0;
  int64_t vocabulary = 0;
};

class SftDataset final : public Dataset {
 public:
  // Passes over the examples, each in an order of its own, until there are enough samples. An example goes into the current
  // sample if it fits, else into the next. UserError for an example that is longer than a sample.
  SftDataset(std::vector<SftExample> examples, const SftPacking& packing);

  int64_t size() const override { return std::ssize(samples_) - 1; }
  int64_t epoch_size() const override { return epoch_size_; }
  int64_t sequence() const override { return packing_.sequence; }
  int64_t vocabulary() const override { return packing_.vocabulary; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  void add_epoch(uint64_t epoch);

  std::vector<SftExample> examples_;
  SftPacking packing_;
  std::vector<uint32_t> order_;   // examples, in the order of the samples
  std::vector<int64_t> samples_;  // where each sample begins in order_; the last element is the end
  int64_t epoch_size_ = 0;
};

}  // namespace trireme
