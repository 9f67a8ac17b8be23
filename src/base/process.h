// What the operating system says about this process.
#pragma once

#include <cstdint>

namespace trireme {

int64_t resident_bytes();       // memory in use now; 0 where the system does not tell
int64_t peak_resident_bytes();  // the most so far

}  // namespace trireme
