// Divides --memory so that no input can exceed it.
#pragma once

#include <cstdint>

#include "data/token_type.h"

namespace trireme::prepare {

struct MemorySplit {
  int64_t blocks = 0;              // number of blocks
  int64_t line_bytes = 0;          // limit of a line
  int64_t uncut_bytes = 0;         // limit of text without a place to cut
  int64_t decompressor_bytes = 0;  // per lane
  int64_t assemble_bytes = 0;      // for assembling, when everything else is free again
};

// Returns the default: 1 GiB, or more if so many workers need it.
int64_t default_memory(int64_t workers);

// `used` is the memory that the process already has. UserError if `memory` is too little for so many workers.
MemorySplit split_memory(int64_t memory, int64_t used, int64_t workers, int64_t lanes, TokenType type);

}  // namespace trireme::prepare
