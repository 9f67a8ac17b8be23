// Which tokens make up sample i: the three index arrays of Megatron's GPT dataset, equal number for number, so that a run here
// sees the same samples as a run there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "data/document_lengths.h"
#include "data/numpy/npy.h"
#include "data/splits.h"

namespace trireme {

// A sample usually has one token more than the sequence, so that each of its tokens has a target; consecutive samples then share
// a token. Without it the last token has no target (model.data.no_seqlen_plus_one_input_tokens).
enum class ExtraToken : uint8_t { no, yes };
// Whether an incomplete last sample is dropped, or kept and padded (model.data.validation_drop_last false).
enum class LastSample : uint8_t { drop, keep };
enum class ShuffleDocuments : uint8_t { no, yes };

struct GptIndexRequest {
  Range documents;             // of the split
  int64_t sequence = 0;        // T
  int64_t samples_needed = 0;  // 0: one epoch
  uint64_t seed = 0;
  ExtraToken extra_token = ExtraToken::yes;
  LastSample last_sample = LastSample::drop;
  ShuffleDocuments shuffle_documents = ShuffleDocuments::yes;

  int64_t extra() const { return extra_token == ExtraToken::yes ? 1 : 0; }
};

// The size of an index and how it is shuffled. Depends on the number of tokens only.
struct GptIndexPlan {
  int64_t tokens_per_epoch = 0;
  int64_t epochs = 1;
  int64_t samples = 0;
  int64_t samples_before_last = 0;   // the sample that crosses the epoch boundary belongs to the last epoch
  bool separate_last_epoch = false;  // the last epoch is shuffled separately because only part of it is needed
  NpyShape document_index, sample_index, shuffle_index;
};

// UserError if the request has too many samples. The documents must have at least one token.
GptIndexPlan plan_gpt_index(const GptIndexRequest& request, int64_t tokens_per_epoch);

// A token in the concatenation of the documents in the order of document_index.
struct TokenPosition {
  int64_t document_position = 0;  // entry of document_index
  int64_t offset = 0;             // token within that document
  bool operator==(const TokenPosition&) const = default;
};

class GptIndex {
 public:
  int64_t samples() const { return shuffle_index.size(); }

  // Returns where sample `index` of the unshuffled order starts; the position after the last sample marks the end. `lengths` and
  // `request` must be those that the index was built for.
  TokenPosition position(int64_t index, DocumentLengths lengths, const GptIndexRequest& request) const;

  GptIndexPlan plan;
  NumberArray document_index;  // every document of the split once per epoch, shuffled
  NumberArray sample_index;    // [samples / stride + 1][2] start of every stride-th sample
  NumberArray shuffle_index;   // [samples] the order of the samples
  int64_t stride = 1;
  std::shared_ptr<const void> storage;  // owns the memory of the arrays
};

// Paths of the .npy files; an empty path keeps the array in memory.
struct GptIndexPaths {
  std::filesystem::path document_index, sample_index, shuffle_index;
};

// megatron: the arrays as Megatron stores them. compact: smaller arrays with the same content: two-byte document numbers if they
// fit, and the start of every 64th sample, from which the others are found by walking forward.
enum class IndexForm : uint8_t { megatron, compact };

// Builds the index. Files are complete and durable when it returns; the shuffle index is written last. An index in files needs at
// most 1 GiB of memory plus page cache.
GptIndex build_gpt_index(DocumentLengths lengths, const GptIndexRequest& request, IndexForm form,
                         const GptIndexPaths& paths = {});

// Returns the tokens of the split, summed document by document. UserError if the sum overflows.
int64_t count_tokens(DocumentLengths lengths, Range documents);

}  // namespace trireme
