// Opens the datasets that a recipe names.
#pragma once

#include <memory>

#include "data/dataset_request.h"
#include "data/document_rules.h"

namespace trireme {

// Returns the request of a training run. It has samples for max_steps full batches even if the batch size ramps up, as in the
// reference systems, because the sample order depends on the number requested. It has samples for every validation, or one epoch
// if limit_val_batches is a fraction.
DatasetRequest training_request(const Settings& settings);

// Returns the vocabulary to use if model.vocab_size is 0: the tokenizer's, or GPT-2's without a tokenizer.
int64_t default_vocabulary(const DataSettings& settings, const TokenizerSettings& tokenizer);

// Returns the document rules of model.data. UserError if they need the end-of-document token and none is known.
DocumentRules document_rules(const DataSettings& settings, const TokenizerSettings& tokenizer, int64_t vocabulary);

// Opens the wanted splits, each with at least the samples it needs, in an order determined by the seed. UserError if the recipe
// or its files do not allow it, or if the tokenizer has more tokens than the model.
//
// data_impl  mmap         Megatron's .bin/.idx, one dataset or a blend (open_indexed.h)
//            mock         counting documents, as in Megatron core; its splits are always equal thirds, whatever splits_string
//            says mock_legacy  uniform random tokens and targets, the same for every split text         the files of data_prefix,
//            tokenized by model.tokenizer or one token per byte flat, llmc   files of tokens without documents (flat_dataset.h)
DatasetsBySplit open_datasets(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice);

// Opens a single split.
std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, int64_t vocab_size, Split split, int64_t sequence,
                                      int64_t samples_needed, uint64_t seed);

}  // namespace trireme
