// How --memory is divided, so that no input can make the run take more.
#pragma once

#include <cstdint>

#include "data/token_type.h"

namespace trireme::prepare {

struct MemorySplit {
  int64_t blocks = 0;              // how many exist
  int64_t line_bytes = 0;          // the longest line
  int64_t uncut_bytes = 0;         // the longest stretch of text that cannot be cut
  int64_t decompressor_bytes = 0;  // of each lane
  int64_t assemble_bytes = 0;      // for the end, when nothing else is needed
};

// The default: 1 GiB, or what so many workers need.
int64_t default_memory(int64_t workers);

// `used` is what the process has already. UserError when `memory` is too little for so many workers.
MemorySplit split_memory(int64_t memory, int64_t used, int64_t workers, int64_t lanes, TokenType type);

}  // namespace trireme::prepare
