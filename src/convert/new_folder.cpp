#include "convert/new_folder.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace trireme {

namespace fs = std::filesystem;

fs::path require_new(const fs::path& path) {
  if (path.empty()) throw UserError("--output must name a folder");
  fs::path absolute = fs::absolute(path / "").lexically_normal().parent_path();  // strips a trailing slash
  if (fs::exists(fs::symlink_status(absolute)))
    throw UserError("--output {} is there already and is left as it is; choose another folder", path.string());
  return absolute;
}

NewFolder::NewFolder(const fs::path& path)
    : path_(require_new(path)), temporary_(fmt::format("{}.writing.{}", path_.string(), ::getpid())) {
  remove_tree(temporary_);  // left by a killed process with the same process id
  create_folders(temporary_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void NewFolder::commit() {
  sync_folder(temporary_);
  require_new(path_);
  rename_or_exchange(temporary_, path_);
  temporary_
      .clear();  // if another process took the name meanwhile, the exchange gave its folder this name; it must not be removed
}

}  // namespace trireme
