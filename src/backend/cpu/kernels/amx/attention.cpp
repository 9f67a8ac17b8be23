#include "backend/cpu/kernels/amx/attention_engine.h"
#include "backend/cpu/kernels/attention_table.h"

namespace trireme::cpu::TRIREME_ISA {

const AttentionKernels attention_bf16 = attention::kKernelsOf<attention::TileEngine>;

}  // namespace trireme::cpu::TRIREME_ISA
