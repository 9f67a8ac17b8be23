#include "base/error.h"
#include "launch/launch_target.h"

namespace trireme {

std::unique_ptr<LaunchTarget> make_local_target(const LaunchOptions&) { throw UserError("launch local is not available"); }

}  // namespace trireme
