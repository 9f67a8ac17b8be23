// The datasets that model.data.data_impl=mmap names: Megatron .bin/.idx files, one or a blend, with their indices.
#pragma once

#include "config/settings.h"
#include "data/dataset_request.h"
#include "data/samples/index_cache.h"

namespace trireme {

// All wanted splits at once; the indices of datasets and splits that are not there yet are made in parallel.
DatasetsBySplit open_indexed_datasets(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice);

// The blend of a split, with the weights of model.data.auto_blend if it is on.
struct Blend blend_of_split(const DataSettings& settings, Split split);

}  // namespace trireme
