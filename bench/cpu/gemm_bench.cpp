// The products of linear layers: rate per shape, beside the rate of multiply-adds on registers alone in the same run.
// usage: gemm_bench [threads] [repetitions]; TRIREME_CPU_ISA picks the instruction set.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace trireme {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The best of several runs: what the machine does when nobody else uses it.
double best_seconds(int repetitions, const std::function<void()>& work) {
  work();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) best = std::min(best, seconds_of(work));
  return best;
}

struct LinearShape {
  int64_t rows, inputs, outputs;
};

class LinearBench {
 public:
  LinearBench(int threads, int repetitions, DType dtype)
      : isa_(cpu::choose_isa()), backend_(threads, isa_), repetitions_(repetitions), dtype_(dtype) {
    peak_ = 1e3 * backend_.measure_peak_tflops(dtype);
    fmt::print("\n{} on {}, multiply-adds on registers: {:.0f} GFLOP/s\n", name_of(dtype), cpu::name_of(isa_), peak_);
    fmt::print("{:<20} {:>6} {:>6} {:>6} {:>10} {:>10} {:>8}\n", "op", "N", "I", "O", "ms", "GFLOP/s", "of peak");
  }

  void run(const LinearShape& shape) {
    const Tensor x = tensor({shape.rows, shape.inputs}), d_x = tensor({shape.rows, shape.inputs});
    const Tensor pre_x = tensor({shape.rows, shape.inputs});
    const Tensor out = tensor({shape.rows, shape.outputs}), pre = tensor({shape.rows, shape.outputs});
    const Tensor weight = tensor({shape.outputs, shape.inputs}), bias = tensor({shape.outputs});
    const Tensor d_weight = tensor({shape.outputs, shape.inputs}, DType::f32), d_bias = tensor({shape.outputs}, DType::f32);
    time(LinearForward{.x = x, .weight = weight, .bias = bias, .pre = {}, .out = out}, "", shape);
    time(LinearForward{.x = x, .weight = weight, .bias = bias, .activation = Activation::gelu_tanh, .pre = pre, .out = out},
         " gelu", shape);
    time(LinearInputGrad{.d_out = out, .weight = weight, .pre = {}, .d_x = d_x}, "", shape);
    time(LinearInputGrad{.d_out = out, .weight = weight, .activation = Activation::gelu_tanh, .pre = pre_x, .d_x = d_x}, " gelu",
         shape);
    time(LinearWeightGrad{.x = x, .d_out = out, .d_weight = d_weight, .d_bias = d_bias}, "", shape);
    memory_.clear();
  }

 private:
  Tensor tensor(const Shape& shape) { return tensor(shape, dtype_); }

  Tensor tensor(const Shape& shape, DType dtype) {
    memory_.push_back(backend_.allocate(shape.count() * size_of(dtype)));
    const Tensor result{memory_.back().block.get(), dtype, shape, Device::host};
    for (int64_t i = 0; i < shape.count(); ++i) {
      const float value = static_cast<float>(i % 61 - 30) / 64;
      if (dtype == DType::f32)
        result.as<float>()[i] = value;
      else
        result.as<bf16>()[i] = to_bf16(value);
    }
    return result;
  }

  template <class Op>
  void time(const Op& op, const char* variant, const LinearShape& shape) {
    const int64_t bytes = backend_.scratch_bytes(op);
    const Memory scratch = backend_.allocate(std::max<int64_t>(bytes, 1));
    backend_.set_scratch(kCompute, Tensor{scratch.block.get(), DType::u8, Shape{std::max<int64_t>(bytes, 1)}, Device::host});
    const double seconds = best_seconds(repetitions_, [&] { backend_.run(kCompute, op); });
    const double rate = op.flops() / seconds * 1e-9;
    fmt::print("{:<20} {:>6} {:>6} {:>6} {:>10.3f} {:>10.1f} {:>7.1f}%\n", std::string(Op::kName + 7) + variant, shape.rows,
               shape.inputs, shape.outputs, seconds * 1e3, rate, 100 * rate / peak_);
  }

  cpu::Isa isa_;
  CpuBackend backend_;
  int repetitions_;
  DType dtype_;
  double peak_ = 0;
  std::vector<Memory> memory_;
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const int repetitions = argc > 2 ? std::atoi(argv[2]) : 10;
  for (const trireme::DType dtype : {trireme::DType::f32, trireme::DType::bf16}) {
    trireme::LinearBench bench(threads, repetitions, dtype);
    for (const trireme::LinearShape& shape : {trireme::LinearShape{2048, 768, 3072},
                                              {2048, 3072, 768},
                                              {2048, 768, 2304},
                                              {16384, 384, 1536},
                                              {512, 768, 50304},
                                              {1, 768, 3072}})
      bench.run(shape);
  }
}
