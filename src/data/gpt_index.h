// Which tokens make sample number i: the three index arrays of Megatron's GPT dataset, equal to them number for number, so that
// a run here sees the samples that a run there saw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/splits.h"

namespace trireme {

// A token of the documents laid end to end in the order of document_index.
struct TokenPosition {
  int64_t document_position = 0;  // where in document_index
  int64_t offset = 0;             // token of that document
  bool operator==(const TokenPosition&) const = default;
};

struct GptIndex {
  int64_t tokens_per_epoch = 0;
  int64_t epochs = 0;
  bool separate_last_epoch = false;  // the last epoch is shuffled by itself, because only a part of it is needed

  std::vector<int32_t> document_index;      // every document of the split once per epoch, shuffled
  std::vector<TokenPosition> sample_index;  // [samples + 1] where each sample begins; neighbours share one token
  std::vector<uint32_t> shuffle_index;      // [samples] the order in which samples are taken

  int64_t samples() const { return static_cast<int64_t>(shuffle_index.size()); }
};

// The index of at least `samples_needed` samples of sequence + 1 tokens, from as many epochs over `documents` as that takes
// (one when samples_needed is 0). The documents must hold at least one token.
GptIndex build_gpt_index(std::span<const int64_t> document_lengths, Range documents, int64_t sequence, int64_t samples_needed,
                         uint64_t seed);

}  // namespace trireme
