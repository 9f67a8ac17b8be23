// The printable characters that represent the 256 bytes in GPT-2's files. Bytes that are printable in Latin-1 represent
// themselves; the others are 256, 257, ... in order.
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

  std::optional<std::string> bytes_of(std::string_view written) const;  // no value: a character represents no byte
  std::string write(std::string_view bytes) const;
  uint16_t order(char byte) const {
    return characters_[static_cast<uint8_t>(byte)];
  }  // the byte's character, which gives the order of the bytes

 private:
  ByteAlphabet();

  std::array<uint16_t, 256> characters_{};
  std::array<int16_t, 324> bytes_{};  // [character]; -1 if none
};

}  // namespace trireme
