// Where golden data is: small facts in the repository, whole vocabularies and texts where scripts/fetch_goldens puts them.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/skip.h"

namespace trireme {

inline std::filesystem::path golden_data() { return std::filesystem::path(TRIREME_SOURCE_DIR) / "tests/data/golden"; }

// TRIREME_GOLDEN_DATA names another folder with the same files.
inline std::filesystem::path large_golden_data() {
  const char* named = std::getenv("TRIREME_GOLDEN_DATA");
  return named != nullptr ? std::filesystem::path(named) : std::filesystem::path(TRIREME_SOURCE_DIR) / ".cache/golden";
}

}  // namespace trireme

#define SKIP_WITHOUT_LARGE_GOLDEN(name)                                  \
  if (!std::filesystem::exists(::trireme::large_golden_data() / (name))) \
  SKIP_FOR(data) << (::trireme::large_golden_data() / (name)).string() << " is not there; scripts/fetch_goldens brings it"
