// A micro-batch in host memory, as the model's ops want it: N = B*T rows, sample after sample. Where sequences are cut over c
// ranks, N = B*T/c: the rows of this rank alone, the first parts of all samples and then their second parts.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch/sequence_cut.h"
#include "data/dataset.h"
#include "data/document_rules.h"

namespace trireme {

struct Batch {
  Batch(int64_t B, int64_t T, SequenceCut cut = {}, DocumentRules documents = {});  // the only allocation

  int64_t micro_batch;  // B
  int64_t sequence;     // T
  SequenceCut cut;      // which tokens of each sample these are
  DocumentRules documents;
  int64_t first_sample = 0;              // number of the first sample in the global order
  int64_t unmasked_targets = 0;          // how many of these targets take part in the loss
  std::vector<int32_t> tokens;           // [N]
  std::vector<int32_t> targets;          // [N], kMaskedTarget where masked
  std::vector<int32_t> positions;        // [N] 0 .. T-1 in each sample or document, of the tokens that are here
  std::vector<int64_t> row_keys;         // [N] global sample * T + position: what random draws are keyed by
  std::vector<int32_t> document_starts;  // [N] the place in the sample of the first token of the document; empty unless needed
  std::vector<int32_t> earlier;          // the tokens of a sample before those that are here, while starts are searched
};

// Samples first_sample .. first_sample + B - 1 of the dataset, or what the batch has of them. Allocates nothing.
void fill_batch(const Dataset& dataset, int64_t first_sample, Batch& batch);

}  // namespace trireme
