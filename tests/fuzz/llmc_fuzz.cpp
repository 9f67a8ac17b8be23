// A shard of llm.c, and a flat file, of any bytes is read or refused with a UserError.
#include <vector>

#include "base/error.h"
#include "data/flat/token_file.h"
#include "fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  const std::string path = fuzz_file("x.bin", {reinterpret_cast<const char*>(data), size});
  const auto read_all = [](const TokenFile& file) {
    std::vector<int32_t> tokens(static_cast<size_t>(file.tokens()));
    file.read(0, tokens);
  };
  try {
    read_all(TokenFile::open_llmc(path));
  } catch (const UserError&) {
  }
  try {
    read_all(TokenFile::open_flat(path, TokenType::uint16));
  } catch (const UserError&) {
  }
  return 0;
}
