// How fast attention runs on the cpu backend, in TFLOP/s by the products that the causal mask leaves (2 forward, 5 backward).
//
//   attention_bench                        a few shapes of GPT-3-class models, f32 and bf16
//   attention_bench B T H G D [DROPOUT]    one shape
//
// TRIREME_CPU_ISA picks the instruction set, taskset the cores. Each figure is the best of several runs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "tensor/arena.h"

namespace trireme {
namespace {

struct Problem {
  int64_t B, T, H, G, D;
  float dropout = 0;
};

constexpr double kSecondsPerFigure = 1.0;
constexpr int kFewestRuns = 3;

// Best seconds of one run.
template <class Op>
double time_op(CpuBackend& backend, const Op& op) {
  using Clock = std::chrono::steady_clock;
  double best = 0, total = 0;
  for (int runs = 0; runs < kFewestRuns || total < kSecondsPerFigure; ++runs) {
    const Clock::time_point start = Clock::now();
    backend.run(kCompute, op);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = runs == 0 ? seconds : std::min(best, seconds);
    total += seconds;
  }
  return best;
}

// Smooth values of the size that normed activations have; speed does not depend on them.
void fill(const Tensor& tensor) {
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const float value = std::sin(static_cast<float>(i % 100003));
    if (tensor.dtype == DType::f32)
      tensor.as<float>()[i] = value;
    else
      tensor.as<bf16>()[i] = to_bf16(value);
  }
}

void measure(CpuBackend& backend, const Problem& problem, DType dtype) {
  const auto [B, T, H, G, D, probability] = problem;
  const int64_t heads = H + 2 * G;
  const Allocator allocate = [&](int64_t bytes) { return backend.allocate(bytes); };
  Arena arena("benchmark", (2 * heads + 2 * H) * B * T * D * size_of(dtype) + B * T * (H * 4 + 8) + 8 * Arena::kAlignment,
              allocate);
  const Tensor qkv = arena.take({B, T, heads, D}, dtype), d_qkv = arena.take({B, T, heads, D}, dtype);
  const Tensor out = arena.take({B, T, H, D}, dtype), d_out = arena.take({B, T, H, D}, dtype);
  const Tensor lse = arena.take({B, H, T}, DType::f32), row_keys = arena.take({B * T}, DType::i64);
  fill(qkv);
  fill(d_out);
  for (int64_t n = 0; n < B * T; ++n) row_keys.as<int64_t>()[n] = n;

  const Dropout dropout{.probability = probability, .seed = 1, .site = 0, .row_keys = row_keys};
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  const HeadsView q{qkv, 0, H}, k{qkv, H, G}, v{qkv, H + G, G};
  const AttentionForward forward{
      .q = q, .k = k, .v = v, .key_length = T, .scale = scale, .dropout = dropout, .out = out, .lse = lse};
  const AttentionBackward backward{.q = q,
                                   .k = k,
                                   .v = v,
                                   .key_length = T,
                                   .scale = scale,
                                   .dropout = dropout,
                                   .out = out,
                                   .lse = lse,
                                   .d_out = d_out,
                                   .d_q = {d_qkv, 0, H},
                                   .d_k = {d_qkv, H, G},
                                   .d_v = {d_qkv, H + G, G}};
  const int64_t scratch_bytes = std::max(backend.scratch_bytes(forward), backend.scratch_bytes(backward));
  Arena scratch("scratch", scratch_bytes, allocate);
  backend.set_scratch(kCompute, scratch.take({scratch_bytes}, DType::u8));
  const double forward_seconds = time_op(backend, forward), backward_seconds = time_op(backend, backward);
  fmt::print("{:4} {:6} {:4} {:4} {:4} {:7} {:5} {:10.2f} {:10.2f} {:10.3f} {:10.3f} {:10.1f}\n", B, T, H, G, D, probability,
             name_of(dtype), forward_seconds * 1e3, backward_seconds * 1e3, forward.flops() / forward_seconds * 1e-12,
             backward.flops() / backward_seconds * 1e-12, static_cast<double>(scratch_bytes) / (1 << 20));
}

int run(int argc, char** argv) {
  std::vector<Problem> problems = {
      {4, 1024, 12, 12, 64}, {1, 2048, 16, 16, 128}, {1, 2048, 32, 8, 128}, {4, 1024, 12, 12, 64, 0.1f}};
  if (argc > 1) {
    if (argc < 6) {
      fmt::print(stderr, "usage: attention_bench [B T H G D [DROPOUT]]\n");
      return 2;
    }
    const auto number = [&](int i) -> int64_t { return std::strtoll(argv[i], nullptr, 10); };
    problems = {{number(1), number(2), number(3), number(4), number(5), argc > 6 ? std::strtof(argv[6], nullptr) : 0}};
  }
  CpuBackend backend;
  fmt::print("{}\n", backend.description());
  fmt::print("{:>4} {:>6} {:>4} {:>4} {:>4} {:>7} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "B", "T", "H", "G", "D", "dropout",
             "dtype", "fwd ms", "bwd ms", "fwd TF/s", "bwd TF/s", "scratch MB");
  for (const Problem& problem : problems)
    for (const DType dtype : {DType::f32, DType::bf16}) measure(backend, problem, dtype);
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { return trireme::run(argc, argv); }
