// What the operating system says about this process.
#pragma once

#include <cstdint>

namespace trireme {

int64_t resident_bytes();       // memory in use now; 0 where the system does not tell
int64_t peak_resident_bytes();  // the most so far

// Memory this process may still take: what the machine has to spare, swap included, or the rest of a container's limit if that is
// less. 0 where the system does not tell.
int64_t available_memory_bytes();

}  // namespace trireme
