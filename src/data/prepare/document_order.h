// In the flat format: which documents are for training and which for validation, and their order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/file.h"
#include "data/prepare/prepare.h"

namespace trireme::prepare {

// Returns numpy.random.default_rng(seed).permutation(count), the order of train_test_split in Hugging Face datasets.
std::vector<uint32_t> numpy_permutation(int64_t count, int64_t seed);

struct TokenRangeFile {
  File file;
  int64_t bytes;
};

class DocumentOrder {
 public:
  static constexpr int64_t kBytesPerDocument = 4 + 4 + 8;  // its length, place in the order, and offset

  // By documents: shuffled by the seed; the first ceil(validation * documents) are for validation, as in Hugging Face datasets,
  // nanoGPT and LitGPT. By characters: the second of the two documents is for validation.
  DocumentOrder(std::span<const int32_t> document_tokens, const PrepareSettings& settings);

  using Take = std::function<void(std::span<const std::byte>)>;
  void copy_validation(const std::vector<TokenRangeFile>& files, int64_t token_bytes, const Take& take) const;
  void copy_training(const std::vector<TokenRangeFile>& files, int64_t token_bytes, const Take& take) const;

  int64_t validation_documents() const { return validation_; }

 private:
  void copy(std::span<const uint32_t> documents, const std::vector<TokenRangeFile>& files, int64_t token_bytes,
            const Take& take) const;

  std::span<const int32_t> lengths_;
  std::vector<int64_t> offsets_;  // of each document, in tokens
  std::vector<uint32_t> order_;   // validation first
  int64_t validation_ = 0;
};

}  // namespace trireme::prepare
