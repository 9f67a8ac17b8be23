// tokens.json beside flat token files: gives the token type, which the files themselves do not record.
//
//   {"token_type": "uint16", "vocabulary": 50257, "files": {"train.bin": 301966, "val.bin": 36059}}     files: tokens per file
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "data/token_type.h"

namespace trireme {

struct FlatDescription {
  TokenType type = TokenType::uint16;
  int64_t vocabulary = 0;                // exclusive upper bound of the tokens
  std::map<std::string, int64_t> files;  // name -> tokens
};

// Replaces the description in `folder`. It is durable when the call returns.
void write_flat_description(const std::filesystem::path& folder, const FlatDescription& description);

// Returns the description in the folder of `file` if it lists this file. UserError if it cannot be read or contradicts the size
// of the file.
std::optional<FlatDescription> read_flat_description(const std::filesystem::path& file);

}  // namespace trireme
