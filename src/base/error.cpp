#include "base/error.h"

#include <string_view>

namespace trireme {

void check_failed(const char* file, int line, const std::string& what) {
  const std::string_view path = file;
  const size_t root = path.rfind("src/");  // hides the build path
  throw std::logic_error(
      fmt::format("check failed: {} ({}:{})", what, root == std::string_view::npos ? path : path.substr(root), line));
}

std::string line_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (dynamic_cast<const std::logic_error*>(&error) == nullptr) return error.what();
  return fmt::format("this is a bug of trireme, please report it with the command and the recipe: {}", error.what());
}

}  // namespace trireme
