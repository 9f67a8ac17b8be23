// Opens the datasets of model.data.data_impl=mmap: Megatron .bin/.idx files, single or blended, with their sample indices.
#pragma once

#include "config/settings.h"
#include "data/dataset_request.h"
#include "data/samples/index_cache.h"

namespace trireme {

// Opens all wanted splits. Missing indices of datasets and splits are built in parallel.
DatasetsBySplit open_indexed_datasets(const DataSettings& settings, const DatasetRequest& request, const DataNotice& notice);

// Returns the blend of a split, with the weights of model.data.auto_blend if it is on.
struct Blend blend_of_split(const DataSettings& settings, Split split);

}  // namespace trireme
