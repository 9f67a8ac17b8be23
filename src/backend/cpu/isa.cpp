#include "backend/cpu/isa.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"

#if defined(__x86_64__)
  #include <cpuid.h>
  #include <sys/syscall.h>
  #include <unistd.h>
#endif

namespace trireme::cpu {
namespace {

#if defined(__x86_64__)
// Linux enables the tile registers only for processes that request them.
bool request_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

// Not every compiler knows its name.
bool cpu_has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kF16c = 1u << 29;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0;
}

bool cpu_has_bf16_vectors() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}

bool cpu_has_bf16_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}
#endif

constexpr Isa kAll[] = {Isa::amx, Isa::avx512_bf16, Isa::avx512, Isa::avx2, Isa::baseline, Isa::amx_emulated};

}  // namespace

bool has_isa(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (isa) {
    case Isa::baseline:
    case Isa::amx_emulated:
      return true;
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
    case Isa::avx512:
      return has_isa(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::avx512_bf16:
      return has_isa(Isa::avx512) && cpu_has_bf16_vectors();
    case Isa::amx: {
      static const bool available = has_isa(Isa::avx512_bf16) && cpu_has_bf16_tiles() && request_tiles();
      return available;
    }
  }
  return false;
#else
  return isa == Isa::baseline;
#endif
}

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::amx:
      return "amx";
    case Isa::amx_emulated:
      return "amx_emulated";
  }
  return "unknown";
}

Isa vector_isa(Isa isa) {
  if (isa == Isa::amx) return Isa::avx512_bf16;
  if (isa != Isa::amx_emulated) return isa;
  for (const Isa best : {Isa::avx512_bf16, Isa::avx512, Isa::avx2})
    if (has_isa(best)) return best;
  return Isa::baseline;
}

Isa choose_isa() {
  if (const char* wanted = std::getenv("TRIREME_CPU_ISA"); wanted != nullptr && *wanted != '\0') {
    for (const Isa isa : kAll) {
      if (std::string_view(wanted) != name_of(isa)) continue;
      if (!has_isa(isa)) throw UserError("TRIREME_CPU_ISA={}: this machine does not have it", wanted);
      return isa;
    }
    throw UserError("TRIREME_CPU_ISA={}: use baseline, avx2, avx512, avx512_bf16, amx or amx_emulated", wanted);
  }
  for (const Isa isa : kAll)
    if (has_isa(isa)) return isa;
  return Isa::baseline;
}

}  // namespace trireme::cpu
