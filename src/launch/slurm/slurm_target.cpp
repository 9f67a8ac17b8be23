#include "base/error.h"
#include "launch/launch_target.h"

namespace trireme {

std::unique_ptr<LaunchTarget> make_slurm_target(const LaunchOptions&) { throw UserError("launch slurm is not available"); }

}  // namespace trireme
