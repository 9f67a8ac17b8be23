// Checkpoints of other programs that import does not read.
#pragma once

#include <filesystem>

namespace trireme {

// UserError that says whose checkpoint this is and how to get a model that import reads; returns for anything else.
void require_no_foreign_checkpoint(const std::filesystem::path& named);

}  // namespace trireme
