#include "backend/cpu/kernels/attention_table.h"
#include "backend/cpu/kernels/attention_vector.h"

namespace trireme::cpu::TRIREME_ISA {

const AttentionKernels attention_f32 = attention::kKernelsOf<attention::VectorEngine<float>>;
const AttentionKernels attention_bf16 = attention::kKernelsOf<attention::VectorEngine<uint16_t>>;
const AttentionKernels attention_f16 = attention::kKernelsOf<attention::VectorEngine<f16>>;

}  // namespace trireme::cpu::TRIREME_ISA
