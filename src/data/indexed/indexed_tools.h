// Datasets made from datasets, as streams: memory does not grow with their size, and the files are what Megatron's own tools
// write.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/indexed/indexed_writer.h"
#include "data/splits.h"

namespace trireme {

struct CopyTotals {
  int64_t sequences = 0, documents = 0, tokens = 0;
};

// One after the other into one. UserError when they differ in token type or in having modes. `progress` is told the bytes of .bin
// written so far.
CopyTotals merge_datasets(const std::vector<std::string>& prefixes, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress);

// Documents [documents.begin, documents.end) of a dataset, whole.
CopyTotals copy_documents(const std::string& prefix, Range documents, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress);

}  // namespace trireme
