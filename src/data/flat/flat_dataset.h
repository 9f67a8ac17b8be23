// Samples from files of tokens without documents (token_file.h): windows of sequence + 1 tokens that never cross a file end.
//
//   random      each sample starts at an offset drawn from the seed and the sample number: all windows are equally likely, and
//               the draws do not depend on the layout of the run (LitGPT, nanoGPT)
//   sequential  consecutive windows, each starting at the last token of the previous one; wraps to the start (llm.c)
#pragma once

#include <vector>

#include "config/settings.h"
#include "data/dataset.h"
#include "data/dataset_request.h"
#include "data/flat/token_file.h"
#include "data/splits.h"

namespace trireme {

// Tokens [begin, end) of a file.
struct TokenSegment {
  std::shared_ptr<const TokenFile> file;
  Range tokens;
};

struct FlatRequest {
  WindowOrder order = WindowOrder::random;
  int64_t sequence = 0;
  int64_t samples_needed = 0;
  uint64_t seed = 0;
  Split split = Split::train;  // different splits draw different offsets
  int64_t vocabulary = 0;
};

class FlatDataset final : public Dataset {
 public:
  FlatDataset(std::vector<TokenSegment> segments, const FlatRequest& request);  // UserError if no window fits

  int64_t size() const override;  // the requested samples, or one epoch
  int64_t epoch_size() const override;
  int64_t sequence() const override { return request_.sequence; }
  int64_t vocabulary() const override { return request_.vocabulary; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  int64_t window_of(int64_t sample) const;

  std::vector<TokenSegment> segments_;
  std::vector<int64_t> windows_;  // running sum of windows, including this segment
  FlatRequest request_;
};

// Opens the wanted splits of model.data.data_impl flat and llmc. data_prefix is
//   a folder    flat: train.bin, val.bin (or validation.bin) and test.bin in it; llmc: all *train*.bin, *val*.bin, *test*.bin
//   files       or patterns: model.data.splits_string divides their tokens
//   a map       {train: [...], validation: [...], test: [...]} of files or patterns
DatasetsBySplit open_flat_datasets(const DataSettings& settings, const DatasetRequest& request);

}  // namespace trireme
