// The folder of an unfinished run: who is at work in it, what it was begun with, and how it goes away.
#pragma once

#include <filesystem>
#include <set>

#include "data/prepare/plan.h"

namespace trireme::prepare {

// A lock that a killed process does not leave behind. Where the file system has none, the run goes on without. UserError if
// another process holds it, Failure if the folder is not there.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& path, const char* holder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_;
};

// Makes the work folder, or finds in it the parts that an earlier run or another rank has chosen. UserError when what is there
// belongs to another output. Returns the files that are not the ones which the folder was begun with, as far as names, sizes and
// times tell: their contents have to be compared.
std::set<size_t> enter_work_folder(Plan& plan);

// Removes it whole: other processes see all of it or nothing. False: something of it is left.
bool remove_work_folder(const std::filesystem::path& folder);

}  // namespace trireme::prepare
