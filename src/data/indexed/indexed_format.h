// The bytes of a Megatron .idx, all little-endian and without padding:
//
//   0           "MMIDIDX\0\0"
//   9           uint64  version, 1
//   17          uint8   token type (token_type.h)
//   18          uint64  S, sequences
//   26          uint64  D, documents + 1
//   34          int32[S]  tokens of each sequence
//   34 + 4S     int64[S]  byte offset of each sequence in the .bin: the running sum of the lengths
//   34 + 12S    int64[D]  first sequence of each document: first entry 0, last entry S
//   34 + 12S+8D int8[S]   modes, in multimodal datasets only; only the file size shows whether they are present
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "data/token_type.h"

namespace trireme {

inline constexpr std::array<char, 9> kIndexMagic{'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kIndexVersionAt = 9, kIndexTypeAt = 17, kIndexSequencesAt = 18, kIndexDocumentsAt = 26;
inline constexpr int64_t kIndexHeaderBytes = 34;

inline std::array<std::byte, kIndexHeaderBytes> make_index_header(TokenType type, int64_t sequences, int64_t document_entries) {
  std::array<std::byte, kIndexHeaderBytes> header{};
  const auto put = [&](int64_t at, const auto& value) { std::memcpy(header.data() + at, &value, sizeof(value)); };
  put(0, kIndexMagic);
  put(kIndexVersionAt, kIndexVersion);
  put(kIndexTypeAt, static_cast<uint8_t>(type));
  put(kIndexSequencesAt, sequences);
  put(kIndexDocumentsAt, document_entries);
  return header;
}

}  // namespace trireme
