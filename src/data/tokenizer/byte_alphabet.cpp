#include "data/tokenizer/byte_alphabet.h"

#include "data/tokenizer/unicode.h"

namespace trireme {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  uint16_t next = 256;
  for (uint16_t byte = 0; byte < 256; ++byte) {
    const bool printable = ('!' <= byte && byte <= '~') || (0xA1 <= byte && byte <= 0xAC) || 0xAE <= byte;
    characters_[byte] = printable ? byte : next++;
    bytes_[characters_[byte]] = static_cast<int16_t>(byte);
  }
}

const ByteAlphabet& ByteAlphabet::get() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

std::optional<std::string> ByteAlphabet::bytes_of(std::string_view written) const {
  std::string bytes;
  for (size_t at = 0; at < written.size();) {
    const DecodedChar decoded = decode_utf8(reinterpret_cast<const uint8_t*>(written.data()) + at, written.size() - at);
    if (decoded.length == 0 || decoded.code_point >= bytes_.size() || bytes_[decoded.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(bytes_[decoded.code_point]));
    at += decoded.length;
  }
  return bytes;
}

std::string ByteAlphabet::write(std::string_view bytes) const {
  std::string written;
  for (const char byte : bytes) append_utf8(characters_[static_cast<uint8_t>(byte)], written);
  return written;
}

}  // namespace trireme
