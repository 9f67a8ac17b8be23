// The lines of NCCL's log that programs read, in the file of NCCL_DEBUG_FILE.
#pragma once

namespace nccl_stand_in {

void log_connected(int ranks, int rank);

}  // namespace nccl_stand_in
