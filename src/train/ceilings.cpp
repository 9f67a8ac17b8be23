#include "train/ceilings.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "tensor/fp8.h"

namespace trireme {
namespace {

constexpr int kRounds = 7;

// Median seconds of an op that runs again and again; the first rounds, in which it is planned and memory is touched, are left
// out.
template <class Op>
double seconds_of(Backend& backend, const Op& op, int repeats) {
  std::vector<double> times(2 * kRounds);
  for (size_t round = 0; round < kRounds; ++round) {
    backend.note_time(kCompute, &times[2 * round]);
    for (int i = 0; i < repeats; ++i) backend.run(kCompute, op);
    backend.note_time(kCompute, &times[2 * round + 1]);
  }
  backend.collect_times();
  std::vector<double> rounds;
  for (size_t round = 2; round < kRounds; ++round) rounds.push_back((times[2 * round + 1] - times[2 * round]) / repeats);
  std::ranges::nth_element(rounds, rounds.begin() + 2);
  return rounds[2];
}

Arena arena_of(Backend& backend, int64_t bytes) {
  return Arena("ceilings", bytes, [&](int64_t all) { return backend.allocate(all); });
}

Operand in_fp8(Backend& backend, const Tensor& x, Arena& arena) {
  static constexpr Fp8Scaling kScaling = Fp8Scaling::current;
  const auto one = [&] { return arena.take({1}, DType::f32); };
  const Fp8Copy copy{.values = arena.take(x.shape, DType::f8e4m3),
                     .transposed = {},
                     .column_sums = {},
                     .scale = one(),
                     .inverse = one(),
                     .amax = one(),
                     .largest = largest_of(DType::f8e4m3),
                     .scaling = &kScaling};
  const Operand operand(x, copy, Wide::kept);
  backend.run(kCompute, Quantize{.x = operand});
  return operand;
}

double flops_per_second(Backend& backend, DType dtype, GemmPrecision precision, int64_t n, int repeats) {
  Arena arena = arena_of(backend, n * n * 4 + 3 * n * n * size_of(dtype) + 2 * n * n + (64 << 10));
  const Tensor random = arena.take({n, n}, DType::f32);
  const Tensor x = arena.take({n, n}, dtype), weight = arena.take({n, n}, dtype), out = arena.take({n, n}, dtype);
  for (const auto& [site, to] : {std::pair{0u, x}, std::pair{1u, weight}}) {
    backend.run(kCompute, RandomNormal{.site = site, .out = random});
    backend.run(kCompute, Copy{.from = random, .to = to});
  }
  LinearForward op{.x = x, .weight = weight, .bias = {}, .pre = {}, .out = out};
  if (precision == GemmPrecision::fp8) op.x = in_fp8(backend, x, arena), op.weight = in_fp8(backend, weight, arena);
  const int64_t bytes = backend.scratch_bytes(op);
  Arena scratch = arena_of(backend, bytes);
  backend.set_scratch(kCompute, scratch.take({bytes}, DType::u8));
  return op.flops() / seconds_of(backend, op, repeats);
}

double bytes_per_second(Backend& backend, int64_t bytes, int repeats) {
  Arena arena = arena_of(backend, 2 * bytes + (64 << 10));
  const Tensor from = arena.take({bytes / 4}, DType::f32), to = arena.take({bytes / 4}, DType::f32);
  backend.run(kCompute, Fill{.value = 1, .out = from});
  return 2.0 * static_cast<double>(bytes) / seconds_of(backend, Copy{.from = from, .to = to}, repeats);
}

}  // namespace

Ceilings measure_ceilings(Backend& backend, DType dtype, GemmPrecision precision) {
  const bool has_device = backend.device_memory().has_value();
  Ceilings ceilings;
  try {
    ceilings.flops = flops_per_second(backend, dtype, precision, has_device ? 8192 : 1024, 4);
    ceilings.bytes = bytes_per_second(backend, int64_t{has_device ? 1024 : 128} << 20, 2);
  } catch (const Failure&) {  // too little memory: the table does without
  }
  return ceilings;
}

}  // namespace trireme
