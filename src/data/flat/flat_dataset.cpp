#include "data/flat/flat_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"

namespace trireme {
namespace {

constexpr uint32_t kFlatSite = 0x466c6174;  // separates these draws from other draws with the same seed

int64_t windows_in(const TokenSegment& segment, const FlatRequest& request) {
  const int64_t tokens = segment.tokens.count(), T = request.sequence;
  if (tokens <= T) return 0;
  return request.order == WindowOrder::random ? tokens - T : (tokens - 1) / T;
}

}  // namespace

FlatDataset::FlatDataset(std::vector<TokenSegment> segments, const FlatRequest& request)
    : segments_(std::move(segments)), request_(request) {
  int64_t windows = 0, tokens = 0;
  for (const TokenSegment& segment : segments_) {
    windows += windows_in(segment, request);
    tokens += segment.tokens.count();
    windows_.push_back(windows);
  }
  if (windows == 0)
    throw UserError("model.data.data_prefix: {} tokens in {} files for {}; one sample takes model.encoder_seq_length + 1 = {}",
                    tokens, segments_.size(), name_of(request.split), request.sequence + 1);
}

int64_t FlatDataset::size() const {
  if (request_.order == WindowOrder::sequential) return std::max(request_.samples_needed, epoch_size());
  return request_.samples_needed > 0 ? request_.samples_needed : epoch_size();
}

int64_t FlatDataset::epoch_size() const {
  if (request_.order == WindowOrder::sequential) return windows_.back();
  return std::max<int64_t>(windows_.back() / request_.sequence, 1);
}

int64_t FlatDataset::window_of(int64_t sample) const {
  if (request_.order == WindowOrder::sequential) return sample % windows_.back();
  const PhiloxBlock bits = philox(request_.seed, {static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32), kFlatSite,
                                                  static_cast<uint32_t>(request_.split)});
  const uint64_t draw = uint64_t{bits[0]} << 32 | bits[1];
  using Word128 = unsigned __int128;
  return static_cast<int64_t>(static_cast<Word128>(draw) * static_cast<Word128>(windows_.back()) >> 64);
}

void FlatDataset::read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  const int64_t window = window_of(index);
  const auto found = std::upper_bound(windows_.begin(), windows_.end(), window);
  const TokenSegment& segment = segments_[static_cast<size_t>(found - windows_.begin())];
  const int64_t within = window - (found == windows_.begin() ? 0 : *(found - 1));
  const int64_t begin =
      segment.tokens.begin + (request_.order == WindowOrder::random ? within : within * request_.sequence) + first;
  segment.file->read(begin, tokens);
  segment.file->read(begin + 1, targets);
  const int32_t most = std::max(*std::ranges::max_element(tokens), targets.back());
  if (most >= request_.vocabulary)
    throw UserError("{}: token {} near token number {}, but model.vocab_size is {}; is it the data of another tokenizer?",
                    segment.file->path(), most, begin, request_.vocabulary);
}

}  // namespace trireme
