// The datasets that a recipe names.
#pragma once

#include <memory>

#include "data/dataset_request.h"
#include "data/document_rules.h"

namespace trireme {

// What a training run asks for: samples for max_steps whole batches even when the batch size ramps up, as the reference systems
// do, since the order of the samples depends on how many are asked for; and samples for every validation, or one epoch where a
// share of the validation data is wanted.
DatasetRequest training_request(const Settings& settings);

// The vocabulary where model.vocab_size is 0: that of the tokenizer, or GPT-2's where there is none.
int64_t default_vocabulary(const DataSettings& settings, const TokenizerSettings& tokenizer);

// What model.data says about the ends of documents. UserError if it needs the token that ends them and none is known.
DocumentRules document_rules(const DataSettings& settings, const TokenizerSettings& tokenizer, int64_t vocabulary);

// The wanted splits, each with at least the samples it needs, in an order that follows from the seed. UserError when the recipe
// or its files do not allow it, or when the tokenizer that it names has more tokens than the model.
//
// data_impl  mmap         Megatron's .bin/.idx, one dataset or a blend (open_indexed.h)
//            mock         counting documents, Megatron core's; its splits are always equal thirds, whatever splits_string says
//            mock_legacy  uniform random tokens and targets, the same for every split
//            text         the files of data_prefix by model.tokenizer, or one token per byte
//            flat, llmc   files of tokens without documents (flat_dataset.h)
DatasetsBySplit open_datasets(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice);

// One of them.
std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, int64_t vocab_size, Split split, int64_t sequence,
                                      int64_t samples_needed, uint64_t seed);

}  // namespace trireme
