#include "config/settings.h"

namespace trireme {

int64_t ModelSettings::rotary_dims() const {
  if (position_embedding_type != PositionEmbedding::rope) return 0;
  // Rounded down; the small addend keeps products such as 0.29 * 100 from falling to 28.
  return static_cast<int64_t>(static_cast<double>(head_width()) * rotary_percentage + 1e-9);
}

}  // namespace trireme
