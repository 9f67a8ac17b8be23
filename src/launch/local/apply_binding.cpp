#include "launch/local/apply_binding.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

constexpr int kPreferMany = 5;  // MPOL_PREFERRED_MANY, Linux 5.15
constexpr int kPreferOne = 1;   // MPOL_PREFERRED

// Memory comes from these nodes as long as they have any, then from others: a rank must not die because its node is full.
void prefer_memory(const std::vector<int>& nodes) {
  constexpr size_t kBits = CHAR_BIT * sizeof(unsigned long);
  std::vector<unsigned long> mask(16);
  for (const int node : nodes)
    if (const auto bit = static_cast<size_t>(node); bit < mask.size() * kBits) mask[bit / kBits] |= 1UL << (bit % kBits);
  const auto set = [&](int policy) { return ::syscall(SYS_set_mempolicy, policy, mask.data(), mask.size() * kBits) == 0; };
  if (nodes.size() == 1 ? set(kPreferOne) : set(kPreferMany)) return;
  fmt::print(stderr, "warning: memory of NUMA node {} cannot be preferred: {}\n", nodes.front(), std::strerror(errno));
}

}  // namespace

void apply_binding(const RankBinding& binding) {
  if (!binding.cpus.empty()) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(binding.cpus.back()) + 1);
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(binding.cpus.back()) + 1);
    CPU_ZERO_S(size, set);
    for (const int cpu : binding.cpus) CPU_SET_S(static_cast<size_t>(cpu), size, set);
    if (::sched_setaffinity(0, size, set) != 0)
      fmt::print(stderr, "warning: this rank cannot be bound to core {}: {}\n", binding.cpus.front(), std::strerror(errno));
    CPU_FREE(set);
  }
  if (!binding.nodes.empty()) prefer_memory(binding.nodes);
}

}  // namespace trireme
