// What the operating system says about this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// A word as a shell takes it back: in quotes where it needs them.
std::string shell_word(std::string_view word);

// How this process was started, as one line that a shell would take; empty where the system does not tell.
std::string command_line();

// What the linker wrote into this program to tell it from every other one; empty where it did not.
std::string build_id();

int64_t resident_bytes();       // memory in use now; 0 where the system does not tell
int64_t peak_resident_bytes();  // the most so far

// Memory this process may still take: what the machine has to spare, swap included, or the rest of a container's limit if that is
// less. 0 where the system does not tell.
int64_t available_memory_bytes();

struct MemoryUse {
  int64_t now = 0, peak = 0;  // resident bytes; 0 where the system does not tell
};
MemoryUse memory_use();  // both at once, fast enough for every step

}  // namespace trireme
