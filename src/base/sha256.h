// Incremental SHA-256, the checksum published with data files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

class Sha256 {
 public:
  enum class Instructions : uint8_t { best, portable };  // best: the processor's instructions, if it has them
  explicit Sha256(Instructions instructions = Instructions::best);

  void add(std::span<const std::byte> bytes);
  int64_t bytes() const { return bytes_; }  // added so far
  std::string finish();                     // 64 lower-case hexadecimal digits; call add no more after it

 private:
  using State = std::array<uint32_t, 8>;
  using Compress = void (*)(State& state, const std::byte* blocks, size_t count);
  static void compress_portable(State& state, const std::byte* blocks, size_t count);
  static void compress_sha_ni(State& state, const std::byte* blocks, size_t count);

  static constexpr size_t kBlock = 64;
  State state_;
  std::array<std::byte, kBlock> pending_{};  // the first bytes_ % kBlock bytes of an incomplete block
  int64_t bytes_ = 0;
  Compress compress_;
};

// Returns whether the text is 64 hexadecimal digits of either case.
bool is_sha256(std::string_view text);

}  // namespace trireme
