#include "convert/torch/sharded_tensor.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

void require_finite(const std::string& name, std::span<const float> values, const TorchTensor& from) {
  const auto is_bad = [](float value) { return !std::isfinite(value); };
  if (const auto count = std::ranges::count_if(values, is_bad); count > 0)
    throw UserError("{}: tensor {} has {} values that are NaN or infinite; import an earlier checkpoint", from.storage->where,
                    name, count);
}

}  // namespace

void ShardedTensor::read(const std::string& name, const Shape& offset, const Shape& extent, std::span<float> to) const {
  const TensorSlice wanted = TensorSlice::rectangle(shape, offset, extent);
  CHECK_EQ(wanted.count(), narrow<int64_t>(to.size()));
  Coverage coverage;
  for (const Piece& piece : pieces) {
    const std::vector<CopyRun> runs = common_runs(TensorSlice::rectangle(shape, piece.offset, piece.extent), wanted);
    if (runs.empty()) continue;
    const TorchTensor tensor = piece.open();
    CHECK(tensor.shape == piece.extent);
    for (const CopyRun& run : runs) {
      const auto values = to.subspan(static_cast<size_t>(run.to), static_cast<size_t>(run.count));
      tensor.read(run.from, values);
      require_finite(name, values, tensor);
    }
    coverage.add(runs);
  }
  if (coverage.covered() != wanted.count())
    throw UserError("tensor {} is not complete: element {} of {} is in no file; copy the files of all ranks", name,
                    coverage.first_gap(), extent);
}

}  // namespace trireme
