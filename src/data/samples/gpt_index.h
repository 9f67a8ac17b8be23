// Which tokens make sample number i: the three index arrays of Megatron's GPT dataset, equal to them number for number, so that
// a run here sees the samples that a run there saw.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "data/document_lengths.h"
#include "data/numpy/npy.h"
#include "data/splits.h"

namespace trireme {

// Usually a sample has one token more than the sequence, so that every token of it has a target; then neighbouring samples share
// a token. Without, the last token of a sample has no target (model.data.no_seqlen_plus_one_input_tokens).
enum class ExtraToken : uint8_t { no, yes };
// What is left at the end and does not fill a sample: dropped, or kept and padded (model.data.validation_drop_last false).
enum class LastSample : uint8_t { drop, keep };
enum class ShuffleDocuments : uint8_t { no, yes };

struct GptIndexRequest {
  Range documents;             // of the split
  int64_t sequence = 0;        // T
  int64_t samples_needed = 0;  // 0: as many as one epoch gives
  uint64_t seed = 0;
  ExtraToken extra_token = ExtraToken::yes;
  LastSample last_sample = LastSample::drop;
  ShuffleDocuments shuffle_documents = ShuffleDocuments::yes;

  int64_t extra() const { return extra_token == ExtraToken::yes ? 1 : 0; }
};

// How large the index of a request is, and how it is shuffled. Follows from the number of tokens alone.
struct GptIndexPlan {
  int64_t tokens_per_epoch = 0;
  int64_t epochs = 1;
  int64_t samples = 0;
  int64_t samples_before_last = 0;   // the sample that straddles the boundary belongs to the last epoch
  bool separate_last_epoch = false;  // the last epoch is shuffled by itself, because only a part of it is needed
  NpyShape document_index, sample_index, shuffle_index;
};

// UserError when the request cannot be numbered. The documents must hold at least one token.
GptIndexPlan plan_gpt_index(const GptIndexRequest& request, int64_t tokens_per_epoch);

// A token of the documents laid end to end in the order of document_index.
struct TokenPosition {
  int64_t document_position = 0;  // where in document_index
  int64_t offset = 0;             // token of that document
  bool operator==(const TokenPosition&) const = default;
};

class GptIndex {
 public:
  int64_t samples() const { return shuffle_index.size(); }

  // Where sample number `index` of the unshuffled order begins; the one after the last marks the end. `lengths` and `request`
  // are those that the index was made for.
  TokenPosition position(int64_t index, DocumentLengths lengths, const GptIndexRequest& request) const;

  GptIndexPlan plan;
  NumberArray document_index;  // every document of the split once per epoch, shuffled
  NumberArray sample_index;    // [samples / stride + 1][2] where each sample begins, or every stride-th
  NumberArray shuffle_index;   // [samples] the order in which samples are taken
  int64_t stride = 1;
  std::shared_ptr<const void> storage;  // what the arrays lie in
};

// Where the arrays are kept as .npy files; an empty path keeps an array in memory.
struct GptIndexPaths {
  std::filesystem::path document_index, sample_index, shuffle_index;
};

// The arrays as Megatron has them, or smaller ones that say the same: document numbers in two bytes where they fit, and the
// beginning of every 64th sample, from which the others are found by walking on.
enum class IndexForm : uint8_t { megatron, compact };

// Makes the index; files are complete and durable when it returns, the last of them the shuffle index. One that goes to files
// takes no more than a gibibyte of memory, and what the system has to spare.
GptIndex build_gpt_index(DocumentLengths lengths, const GptIndexRequest& request, IndexForm form,
                         const GptIndexPaths& paths = {});

// The tokens of the split, counted one document after the other. UserError when they are too many to count.
int64_t count_tokens(DocumentLengths lengths, Range documents);

}  // namespace trireme
