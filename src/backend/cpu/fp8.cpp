#include "backend/cpu/cpu_backend.h"
#include "backend/host_fp8.h"

namespace trireme {

void CpuBackend::run(Stream, const Quantize& op) { quantize_on_host(op); }
void CpuBackend::run(Stream, const QuantizeNorm& op) { quantize_norm_on_host(op); }
void CpuBackend::run(Stream, const UpdateScales& op) { update_scales_on_host(op); }

}  // namespace trireme
