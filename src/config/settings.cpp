#include "config/settings.h"

namespace trireme {

const char* name_of(Precision precision) {
  constexpr const char* kNames[] = {"32", "bf16", "16"};
  return kNames[static_cast<size_t>(precision)];
}

int64_t ModelSettings::layers_of_stage(int64_t stages, int64_t stage) const {
  if (stages == 1) return num_layers;
  const int64_t first = num_layers_in_first_pipeline_stage, last = num_layers_in_last_pipeline_stage;
  if (stage == 0 && first > 0) return first;
  if (stage == stages - 1 && last > 0) return last;
  return (num_layers - first - last) / (stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0));
}

int64_t ModelSettings::rotary_dims() const {
  if (position_embedding_type != PositionEmbedding::rope) return 0;
  // Rounded down; the small addend keeps a result such as 0.29 * 100 from becoming 28.
  return static_cast<int64_t>(static_cast<double>(head_width()) * rotary_percentage + 1e-9);
}

}  // namespace trireme
