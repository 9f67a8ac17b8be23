// Which instruction sets the cpu backend may use. Kernels are compiled once per set; one is chosen when a backend is made.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::cpu {

// Each includes those before it; amx_emulated runs the AMX kernels on emulated tiles, for tests on machines without AMX.
enum class Isa : uint8_t { baseline, avx2, avx512, avx512_bf16, amx, amx_emulated };

// The best this machine has, or what TRIREME_CPU_ISA names (an error if the machine does not have it). Asking for amx also asks
// the kernel for permission to use the tiles.
Isa choose_isa();
bool has_isa(Isa isa);
const char* name_of(Isa isa);

// The instruction set of the vector kernels that go with `isa`: avx512_bf16 for amx, the best of the machine for amx_emulated.
Isa vector_isa(Isa isa);

}  // namespace trireme::cpu
