// Which instruction sets the cpu backend may use. Kernels are compiled once per set; each backend chooses one when it is created.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::cpu {

// Each includes those before it. amx_emulated runs the AMX kernels on emulated tiles, for tests on machines without AMX.
enum class Isa : uint8_t { baseline, avx2, avx512, avx512_bf16, amx, amx_emulated };

// Returns the best set of this machine, or the one that TRIREME_CPU_ISA names (an error if the machine does not have it). For amx
// it also asks the operating system for permission to use the tiles.
Isa choose_isa();
bool has_isa(Isa isa);
const char* name_of(Isa isa);

// The instruction set of the vector kernels used with `isa`: avx512_bf16 for amx, the machine's best for amx_emulated.
Isa vector_isa(Isa isa);

}  // namespace trireme::cpu
