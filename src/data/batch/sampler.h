// Maps data-parallel ranks to samples. Samples are consumed in blocks of data-parallel size * micro-batch consecutive samples;
// rank r takes the r-th micro-batch of each block. So the samples of a global batch do not depend on the layout, and the position
// in the data is one number: the samples consumed so far.
#pragma once

#include <cstdint>

#include "base/checked_math.h"
#include "base/error.h"
#include "data/batch/sequence_cut.h"
#include "data/document_rules.h"

namespace trireme {

struct SamplerLayout {
  int64_t micro_batch = 1;  // samples in a micro-batch
  int64_t rank = 0;         // in the data-parallel group
  int64_t size = 1;         // ranks in the data-parallel group
  SequenceCut cut = {};     // context-parallel ranks take the same samples but different tokens of them
  DocumentRules documents = {};
};

// Returns the first sample of this rank's micro-batch `number`, counted from position `consumed_samples`. Its other samples
// follow consecutively.
inline int64_t first_sample(const SamplerLayout& layout, int64_t consumed_samples, int64_t number) {
  CHECK(layout.micro_batch >= 1 && 0 <= layout.rank && layout.rank < layout.size);
  CHECK(consumed_samples >= 0 && number >= 0);
  constexpr const char* kWhat = "position in the data";
  const int64_t micro_batches = checked_add(checked_multiply(number, layout.size, kWhat), layout.rank, kWhat);
  return checked_add(consumed_samples, checked_multiply(micro_batches, layout.micro_batch, kWhat), kWhat);
}

// Returns the number of micro-batches left per rank in a dataset of `samples` after `consumed_samples`. Every rank drops an
// incomplete last block.
inline int64_t micro_batches_left(const SamplerLayout& layout, int64_t consumed_samples, int64_t samples) {
  const int64_t block = checked_multiply(layout.micro_batch, layout.size, "model.micro_batch_size * data-parallel size");
  CHECK(block >= 1 && consumed_samples >= 0);
  return consumed_samples >= samples ? 0 : (samples - consumed_samples) / block;
}

}  // namespace trireme
