#include <cstdlib>
#include <string_view>
#include <vector>

#include "data/tokenizer/kernels/word_kernels.h"

namespace trireme {

extern const WordKernels word_kernels_baseline;

#if defined(__x86_64__)
extern const WordKernels word_kernels_avx2;
extern const WordKernels word_kernels_avx512;
#endif

std::span<const WordKernels* const> available_word_kernels() {
  static const std::vector<const WordKernels*> available = [] {
    std::vector<const WordKernels*> found;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
      found.push_back(&word_kernels_avx512);
    if (avx2) found.push_back(&word_kernels_avx2);
#endif
    found.push_back(&word_kernels_baseline);
    return found;
  }();
  return available;
}

const WordKernels& choose_word_kernels() {
  if (const char* wanted = std::getenv("TRIREME_CPU_ISA"))
    for (const WordKernels* kernels : available_word_kernels())
      if (kernels->name == std::string_view(wanted)) return *kernels;
  return *available_word_kernels().front();
}

}  // namespace trireme
