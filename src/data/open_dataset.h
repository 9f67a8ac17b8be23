// The dataset that a recipe names.
#pragma once

#include <memory>

#include "config/settings.h"
#include "data/dataset.h"
#include "data/splits.h"

namespace trireme {

// The vocabulary that model.data asks for when model.vocab_size is 0. Opens no file.
int64_t default_vocabulary(const DataSettings& settings);

// The split's dataset, with at least `samples_needed` samples of `sequence` tokens, in an order that follows from the seed.
// vocab_size 0: default_vocabulary. UserError when the recipe or its files do not allow it.
//
// data_impl  mock         counting documents, Megatron core's; its splits are always equal thirds, whatever splits_string says
//            mock_legacy  uniform random tokens and targets, the same for every split
//            text         the files of data_prefix, one token per byte
std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, int64_t vocab_size, Split split, int64_t sequence,
                                      int64_t samples_needed, uint64_t seed);

}  // namespace trireme
