// libFuzzer: the bytes are an archive, and its files are read to their ends, or it is refused in one line.
#include <algorithm>
#include <array>
#include <cstdint>

#include "data/prepare/tar_reader.h"

namespace {

class BytesSource final : public trireme::prepare::ByteSource {
 public:
  explicit BytesSource(std::span<const char> bytes) : bytes_(bytes) {}
  size_t read(std::span<char> to) override {
    const size_t count = std::min(to.size(), bytes_.size());
    std::copy_n(bytes_.begin(), count, to.begin());
    bytes_ = bytes_.subspan(count);
    return count;
  }

 private:
  std::span<const char> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  BytesSource source({reinterpret_cast<const char*>(data), size});
  trireme::prepare::TarReader tar(source);
  std::array<char, 100> piece;
  try {
    while (tar.next())
      while (tar.read(piece) == piece.size()) {
      }
  } catch (const trireme::prepare::InputError&) {
  }
  return 0;
}
