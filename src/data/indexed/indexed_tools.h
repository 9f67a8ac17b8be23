// Tools that make datasets from datasets. They stream, so memory does not grow with size. The files equal those of Megatron's own
// tools.
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

// Concatenates datasets into one. UserError if they differ in token type or in having modes. `progress` receives the bytes of
// .bin written so far.
CopyTotals merge_datasets(const std::vector<std::string>& prefixes, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress);

// Copies documents [documents.begin, documents.end) of a dataset whole.
CopyTotals copy_documents(const std::string& prefix, Range documents, const std::string& output, Replace replace,
                          const std::function<void(int64_t)>& progress);

}  // namespace trireme
