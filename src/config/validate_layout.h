// Whether a model can be split over the ranks as its recipe says.
#pragma once

#include "config/settings.h"

namespace trireme {

// Throws a UserError for the first parallel size that does not divide what it splits.
void validate_layout(const ModelSettings& model);

// The same for the number of ranks: it must be a whole number of copies of the model, and the batch must divide among them.
void validate_rank_count(const Settings& settings);

}  // namespace trireme
