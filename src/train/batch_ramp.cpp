#include "train/batch_ramp.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

int64_t global_batch_at(const ModelSettings& model, int64_t consumed_samples) {
  if (model.rampup_batch_size.empty()) return model.global_batch_size;
  CHECK_EQ(model.rampup_batch_size.size(), size_t{3});
  const int64_t start = model.rampup_batch_size[0], increment = model.rampup_batch_size[1], samples = model.rampup_batch_size[2];
  if (consumed_samples > samples || start >= model.global_batch_size) return model.global_batch_size;
  const int64_t increments = div_exact(model.global_batch_size - start, increment);
  const int64_t samples_each = std::max<int64_t>(1, samples / increments);
  return std::min(model.global_batch_size, start + consumed_samples / samples_each * increment);
}

}  // namespace trireme
