#include "base/error.h"
#include "launch/launch_target.h"

namespace trireme {

std::unique_ptr<LaunchTarget> make_kubernetes_target(const LaunchOptions&) { throw UserError("launch kubernetes is not available"); }

}  // namespace trireme
