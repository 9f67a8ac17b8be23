#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/gemm.h"
#include "base/clock.h"

namespace trireme {

double CpuBackend::measure_peak_tflops(DType dtype) {
  constexpr int64_t kRounds = 20000;  // about a millisecond
  const cpu::GemmKernel& kernel = cpu::gemm_kernel(isa_, dtype == DType::bf16 ? cpu::Element::bf16 : cpu::Element::f32);
  std::vector<double> operations(static_cast<size_t>(pool_.size()));
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    const Stopwatch watch;
    pool_.run(pool_.size(), [&](int64_t task) { operations[static_cast<size_t>(task)] = kernel.exercise(kRounds); });
    best = std::min(best, watch.seconds());
  }
  double total = 0;
  for (const double count : operations) total += count;
  return total / best * 1e-12;
}

}  // namespace trireme
