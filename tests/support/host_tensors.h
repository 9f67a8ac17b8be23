// Tensors in host memory for tests, filled with reproducible values. Bytes before and after each of them are known, so that a
// write outside is found.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/philox.h"
#include "tensor/tensor.h"

namespace trireme {

class HostTensors {
 public:
  explicit HostTensors(uint64_t seed = 1) : seed_(seed) {}

  // Uninitialised. Tensors are aligned as their elements need and no better, as views into larger buffers are.
  Tensor bytes(const Shape& shape, DType dtype, int64_t alignment = 8) {
    Tensor tensor{.data = nullptr, .dtype = dtype, .shape = shape, .device = Device::host};
    Block& block = blocks_.emplace_back();
    block.bytes.assign(static_cast<size_t>(tensor.bytes() + 2 * kGuardBytes + alignment), kGuardByte);
    const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(block.bytes.data()));
    block.begin = round_up(address + kGuardBytes, alignment) - address;
    block.end = block.begin + tensor.bytes();
    tensor.data = block.bytes.data() + block.begin;
    return tensor;
  }

  // f32, bf16, f16 or f64, uniform in [low, high).
  Tensor uniform(const Shape& shape, DType dtype, double low = -1, double high = 1) {
    const Tensor tensor = bytes(shape, dtype);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double value = low + (high - low) * uniform_open(next_bits());
      if (dtype == DType::f32) tensor.as<float>()[i] = static_cast<float>(value);
      if (dtype == DType::bf16) tensor.as<bf16>()[i] = to_bf16(static_cast<float>(value));
      if (dtype == DType::f16) tensor.as<f16>()[i] = to_f16(static_cast<float>(value));
      if (dtype == DType::f64) tensor.as<double>()[i] = value;
    }
    return tensor;
  }

  // i32, uniform in [low, high).
  Tensor integers(const Shape& shape, int64_t low, int64_t high) {
    const Tensor tensor = bytes(shape, DType::i32);
    for (int32_t& value : tensor.span<int32_t>()) value = narrow<int32_t>(low + next_bits() % (high - low));
    return tensor;
  }

  // [N] i64, different, some beyond 32 bits as after many samples.
  Tensor row_keys(int64_t N) {
    const Tensor tensor = bytes({N}, DType::i64);
    for (int64_t n = 0; n < N; ++n) tensor.as<int64_t>()[n] = (n % 3 == 2 ? int64_t{1} << 33 : 0) + 7 * n;
    return tensor;
  }

  void expect_untouched_outside() const {
    const auto untouched = [](uint8_t byte) { return byte == kGuardByte; };
    for (const Block& block : blocks_) {
      EXPECT_TRUE(std::all_of(block.bytes.begin(), block.bytes.begin() + block.begin, untouched)) << "written before a tensor";
      EXPECT_TRUE(std::all_of(block.bytes.begin() + block.end, block.bytes.end(), untouched)) << "written behind a tensor";
    }
  }

 private:
  struct Block {
    std::vector<uint8_t> bytes;
    int64_t begin = 0, end = 0;  // of the tensor
  };
  static constexpr int64_t kGuardBytes = 72;  // so that a tensor does not start at a cache line
  static constexpr uint8_t kGuardByte = 0xA5;

  uint32_t next_bits() {
    const uint64_t index = drawn_++;
    return philox(seed_, {static_cast<uint32_t>(index), 0, 0, 0})[0];
  }

  uint64_t seed_;
  uint64_t drawn_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace trireme
