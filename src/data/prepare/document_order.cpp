#include "data/prepare/document_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "data/numpy/numpy_random.h"

namespace trireme::prepare {

std::vector<uint32_t> numpy_permutation(int64_t count, int64_t seed) {
  if (count > int64_t{std::numeric_limits<uint32_t>::max()})
    throw UserError("--format flat: {} documents are more than can be shuffled; 4294967295 can", count);
  std::vector<uint32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  NumpyGenerator generator(static_cast<uint64_t>(seed));
  for (size_t i = order.size(); i > 1; --i) {
    const auto most = static_cast<uint32_t>(i - 1);
    const uint32_t mask = std::numeric_limits<uint32_t>::max() >> std::countl_zero(most);
    uint32_t draw = 0;
    do draw = generator.next32() & mask;
    while (draw > most);
    std::swap(order[i - 1], order[draw]);
  }
  return order;
}

DocumentOrder::DocumentOrder(std::span<const int32_t> document_tokens, const PrepareSettings& settings)
    : lengths_(document_tokens), offsets_(document_tokens.size()) {
  std::exclusive_scan(lengths_.begin(), lengths_.end(), offsets_.begin(), int64_t{0});
  const auto count = std::ssize(lengths_);
  if (settings.split_by == SplitBy::characters) {
    CHECK_EQ(count, 2);
    order_ = {1, 0};
    validation_ = 1;
    return;
  }
  order_ = numpy_permutation(count, settings.seed);
  validation_ = static_cast<int64_t>(std::ceil(settings.validation * static_cast<double>(count)));
}

void DocumentOrder::copy_validation(const std::vector<TokenRangeFile>& files, int64_t token_bytes, const Take& take) const {
  copy(std::span(order_).first(static_cast<size_t>(validation_)), files, token_bytes, take);
}

void DocumentOrder::copy_training(const std::vector<TokenRangeFile>& files, int64_t token_bytes, const Take& take) const {
  copy(std::span(order_).subspan(static_cast<size_t>(validation_)), files, token_bytes, take);
}

void DocumentOrder::copy(std::span<const uint32_t> documents, const std::vector<TokenRangeFile>& files, int64_t token_bytes,
                         const Take& take) const {
  std::vector<int64_t> ends;
  for (const TokenRangeFile& file : files) ends.push_back((ends.empty() ? 0 : ends.back()) + file.bytes);
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (const uint32_t document : documents) {
    int64_t at = offsets_[document] * token_bytes;
    const int64_t end = at + lengths_[document] * token_bytes;
    // A document is stored in one part.
    const auto part = static_cast<size_t>(std::ranges::upper_bound(ends, at) - ends.begin());
    while (at < end) {
      const auto piece = std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(end - at, std::ssize(buffer))));
      files[part].file.read_at(at - (ends[part] - files[part].bytes), piece);
      take(piece);
      at += std::ssize(piece);
    }
  }
}

}  // namespace trireme::prepare
