#include "backend/host_fp8.h"
#include "backend/reference/reference_backend.h"

namespace trireme {

void ReferenceBackend::run(Stream, const Quantize& op) { quantize_on_host(op); }
void ReferenceBackend::run(Stream, const QuantizeNorm& op) { quantize_norm_on_host(op); }
void ReferenceBackend::run(Stream, const UpdateScales& op) { update_scales_on_host(op); }

}  // namespace trireme
