// Whether a model can be cut over the ranks as its recipe says.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first size that does not divide what it cuts.
void validate_layout(const ModelSettings& model);

// The same for the number of ranks: whether they hold the model a whole number of times and share the batch.
void validate_rank_count(const Settings& settings);

}  // namespace trireme
