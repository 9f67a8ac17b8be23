// The printable characters that GPT-2's files write for the 256 bytes: bytes that are printable in Latin-1 are themselves, the
// others are 256, 257, ... in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

class ByteAlphabet {
 public:
  static const ByteAlphabet& get();

  std::optional<std::string> bytes_of(std::string_view written) const;  // none: it has a character that stands for no byte
  std::string write(std::string_view bytes) const;
  uint16_t order(char byte) const { return characters_[static_cast<uint8_t>(byte)]; }  // of its character among the others

 private:
  ByteAlphabet();

  std::array<uint16_t, 256> characters_{};
  std::array<int16_t, 324> bytes_{};  // [character]; -1: none
};

}  // namespace trireme
