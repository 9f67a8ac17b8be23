// Whether a folder is the same on all nodes, can be written from each of them, and has room.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/control.h"
#include "validate/finding.h"

namespace trireme {

struct FolderRequest {
  std::string option;  // "--results"
  std::filesystem::path path;
  bool must_be_writable = true;  // else it is only said
  int64_t free_bytes = 0;        // that it should have
};

// All ranks call it together; `is_first` on one rank per node, of which the first rank is one. The findings are on rank 0. Leaves
// nothing in the folder.
std::vector<Finding> check_folder(Control& control, bool is_first, const FolderRequest& request);

}  // namespace trireme
