// The folder of an unfinished run: its locks, its plan and its removal.
#pragma once

#include <filesystem>
#include <set>

#include "data/prepare/plan.h"

namespace trireme::prepare {

// A lock that the system releases when the process dies. On a file system without locks the run continues without one. UserError
// if another process holds it; Failure if the folder does not exist.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& path, const char* holder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

// Creates the work folder, or reads from it the parts that an earlier run or another rank chose. UserError if the folder belongs
// to another output. Returns the files whose names, sizes or times differ from those recorded; the caller must compare their
// contents.
std::set<size_t> enter_work_folder(Plan& plan);

// Removes the folder: other processes see all of it or nothing. Returns false if something is left.
bool remove_work_folder(const std::filesystem::path& folder);

}  // namespace trireme::prepare
