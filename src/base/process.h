// Information from the operating system about this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// Quotes a word for a shell if it needs quotes.
std::string shell_word(std::string_view word);

// Returns the command line of this process, quoted for a shell; empty if unknown.
std::string command_line();

double process_age_seconds();  // since this process was started; 0: unknown

std::string host_name();  // "localhost" if unknown
std::string user_name();  // who runs this process; its number if it has no name

// Returns the linker's build id of this program; empty if there is none.
std::string build_id();

// Returns bits from the kernel that no other process has. std::random_device of a new C++ library would need a new glibc.
uint32_t random_bits();

int64_t resident_bytes();       // memory in use now; 0: unknown
int64_t peak_resident_bytes();  // peak so far

// Returns the memory that this process may still allocate: the machine's available memory including swap, or what is left of a
// container's limit if that is less. 0 if unknown.
int64_t available_memory_bytes();

struct MemoryUse {
  int64_t now = 0, peak = 0;  // resident bytes; 0: unknown
};
MemoryUse memory_use();  // both values; fast enough to call in every step

}  // namespace trireme
