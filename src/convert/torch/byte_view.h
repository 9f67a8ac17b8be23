// Part of a mapped file, and the name that errors give it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace trireme {

struct ByteView {
  std::span<const std::byte> bytes;
  std::string where;  // "model_optim_rng.pt", "model.nemo: model_weights.ckpt"

  uint64_t size() const { return bytes.size(); }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  // Whether [begin, begin + count) lies inside; holds for any two numbers.
  bool has(uint64_t begin, uint64_t count) const { return begin <= size() && count <= size() - begin; }

  // Failure unless the range lies inside.
  std::span<const std::byte> part(uint64_t begin, uint64_t count) const {
    if (!has(begin, count)) throw Failure("{}: damaged: bytes {} to {} of {} are named", where, begin, begin + count, size());
    return bytes.subspan(begin, count);
  }

  // A little-endian unsigned number of `count` <= 8 bytes.
  uint64_t number(uint64_t begin, uint64_t count) const {
    uint64_t value = 0;
    const auto bytes_there = part(begin, count);
    for (uint64_t i = count; i-- > 0;) value = (value << 8) | std::to_integer<uint64_t>(bytes_there[i]);
    return value;
  }
};

}  // namespace trireme
