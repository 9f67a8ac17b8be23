// SHA-256 of the bytes of an array, as 64 hexadecimal digits: large golden arrays are known by it.
#pragma once

#include "base/sha256.h"

namespace trireme {

inline std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace trireme
