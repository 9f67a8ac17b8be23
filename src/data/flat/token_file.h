// A file of tokens without documents, read in place. Either a flat train.bin of nanoGPT and LitGPT, which has tokens only, or a
// shard of llm.c, which starts with a header of 256 int32:
//
//   [0] 20240520, [1] 1, [2] tokens: uint16      [0] 20240801, [1] 7, [2] tokens: uint32 (Llama 3)      the rest is 0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "data/token_type.h"

namespace trireme {

class TokenFile {
 public:
  // UserError names the file and the byte if the file is not valid.
  static TokenFile open_flat(const std::string& path, TokenType type);
  static TokenFile open_llmc(const std::string& path);

  std::string path() const { return file_.path().string(); }
  TokenType type() const { return type_; }
  int64_t tokens() const { return std::ssize(data_) / size_of(type_); }

  // Reads tokens [begin, begin + tokens.size()), which must be inside the file.
  void read(int64_t begin, std::span<int32_t> tokens) const;

 private:
  MappedFile file_;
  TokenType type_ = TokenType::uint16;
  std::span<const std::byte> data_;
};

}  // namespace trireme
