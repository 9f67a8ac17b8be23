#include "base/module_file.h"

namespace trireme {

std::filesystem::path module_file(const char* name) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path(), above = here.parent_path();
  for (const fs::path& folder : {here, above, above / "lib/trireme"})
    if (fs::path path = folder / name; fs::exists(path, failed)) return path;
  return {};
}

}  // namespace trireme
