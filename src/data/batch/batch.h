// A micro-batch in host memory, laid out as the model's ops read it: N = B*T rows, sample after sample.
// With context parallelism over c ranks N = B*T/c: only the rows of this rank, first the first parts of all samples, then their
// second parts.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch/sequence_cut.h"
#include "data/dataset.h"
#include "data/document_rules.h"

namespace trireme {

struct Batch {
  Batch(int64_t B, int64_t T, SequenceCut cut = {}, DocumentRules documents = {});  // makes all allocations

  int64_t micro_batch;  // B
  int64_t sequence;     // T
  SequenceCut cut;      // selects the tokens of each sample held here
  DocumentRules documents;
  int64_t first_sample = 0;              // index of the first sample in the global order
  int64_t unmasked_targets = 0;          // number of targets that count in the loss
  std::vector<int32_t> tokens;           // [N]
  std::vector<int32_t> targets;          // [N], kMaskedTarget where masked
  std::vector<int32_t> positions;        // [N] 0 .. T-1 within each sample or document
  std::vector<int64_t> row_keys;         // [N] global sample * T + position, the key of random draws
  std::vector<int32_t> document_starts;  // [N] position in the sample at which the row's document starts; empty unless needed
  std::vector<int32_t> earlier;          // scratch: tokens of the sample before those of this rank, to find document starts
};

// Fills the batch with samples first_sample .. first_sample + B - 1 of the dataset, or with this rank's part of them. Allocates
// nothing.
void fill_batch(const Dataset& dataset, int64_t first_sample, Batch& batch);

}  // namespace trireme
