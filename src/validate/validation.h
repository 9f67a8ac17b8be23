// A validation of the ranks of a job and the nodes they run on: every part, in order, and the verdict. Every rank of the job
// calls run_validation() with its own backend and the group of all ranks.
#pragma once

#include <functional>

#include "tensor/dtype.h"
#include "validate/folders.h"
#include "validate/report.h"

namespace trireme {

struct ValidationOptions {
  Depth depth = Depth::full;
  int dcgm_level = 0;                  // 0: without DCGM
  bool has_speeds = true;              // devices, collectives and pairs; false: inventory and DCGM only
  bool runs_after_dcgm_fault = false;  // they run although DCGM found a fault
  int64_t max_bytes = 0;               // of a collective; 0: what is usual for the device
  std::vector<FolderRequest> folders;
  std::string cluster;  // of the hardware catalogue; empty: that of the GPU, if it is known

  // On rank 0: a line about what happens now, and lines of the result as they come.
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<void(const std::string&)> print = [](const std::string&) {};
};

// The whole report on rank 0; on the others only a finding if there is one.
ValidationReport run_validation(RankGroup& here, const ValidationOptions& options);

}  // namespace trireme
