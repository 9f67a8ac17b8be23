// A folder that is there whole or not at all: filled under a temporary name beside its place, and renamed at the end.
#pragma once

#include <filesystem>

namespace trireme {

class NewFolder {
 public:
  // UserError if something has the name already. Makes the temporary folder, PATH.writing.PROCESS.
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();  // what was not committed goes
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }            // absolute
  const std::filesystem::path& temporary() const { return temporary_; }  // to write to
  void commit();

 private:
  std::filesystem::path path_, temporary_;
};

// The check that a NewFolder makes first, for commands that want to fail before they begin. Returns the absolute path.
std::filesystem::path require_new(const std::filesystem::path& path);

}  // namespace trireme
