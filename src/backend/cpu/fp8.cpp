#include "backend/cpu/cpu_backend.h"
#include "backend/host_fp8.h"

namespace trireme {

void CpuBackend::run(Stream, const Quantise& op) { quantise_on_host(op); }
void CpuBackend::run(Stream, const QuantiseNorm& op) { quantise_norm_on_host(op); }
void CpuBackend::run(Stream, const UpdateScales& op) { update_scales_on_host(op); }

}  // namespace trireme
