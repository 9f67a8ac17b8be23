// A folder that is created atomically: filled under a temporary name beside its target, and renamed at the end.
#pragma once

#include <filesystem>

namespace trireme {

class NewFolder {
 public:
  // UserError if the name is taken. Creates the temporary folder, PATH.writing.PROCESS.
  explicit NewFolder(const std::filesystem::path& path);
  ~NewFolder();  // removes the folder unless it was committed
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }            // absolute
  const std::filesystem::path& temporary() const { return temporary_; }  // the folder to write to
  void commit();

 private:
  std::filesystem::path path_, temporary_;
};

// The constructor's check, for commands that must fail before they start. Returns the absolute path.
std::filesystem::path require_new(const std::filesystem::path& path);

}  // namespace trireme
