// The table of attention kernels for an engine.
#pragma once

#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_forward.h"

namespace trireme::cpu::TRIREME_ISA::attention {

template <class Engine>
constexpr AttentionKernels kKernelsOf = {.forward_scratch_bytes = forward_scratch_bytes<Engine>,
                                         .forward = attention_forward<Engine>,
                                         .backward_scratch_bytes = backward_scratch_bytes<Engine>,
                                         .key_gradient_bytes = key_gradient_bytes<Engine>,
                                         .backward = attention_backward<Engine>,
                                         .store_key_gradients = store_key_gradients<Engine>};

}  // namespace trireme::cpu::TRIREME_ISA::attention
