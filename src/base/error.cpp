#include "base/error.h"

namespace trireme {

void check_failed(const char* file, int line, const std::string& what) {
  throw std::logic_error(fmt::format("{}:{}: check failed: {}", file, line, what));
}

}  // namespace trireme
