// tokens.json beside flat token files: which type their tokens have, since the files themselves do not say.
//
//   {"token_type": "uint16", "vocabulary": 50257, "files": {"train.bin": 301966, "val.bin": 36059}}     files: tokens
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "data/token_type.h"

namespace trireme {

struct FlatDescription {
  TokenType type = TokenType::uint16;
  int64_t vocabulary = 0;                // tokens are below this
  std::map<std::string, int64_t> files;  // name -> tokens
};

// Replaces the description in `folder`; durable.
void write_flat_description(const std::filesystem::path& folder, const FlatDescription& description);

// What the description in the folder of `file` says, if it speaks of this file. UserError if it cannot be read, or if the size
// of the file contradicts it.
std::optional<FlatDescription> read_flat_description(const std::filesystem::path& file);

}  // namespace trireme
