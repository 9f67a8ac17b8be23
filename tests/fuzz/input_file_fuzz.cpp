// libFuzzer: a file of any bytes, of the kind that its first byte says, is unfolded, cut into blocks and tokenized; what is wrong
// with it is counted. The tokens are those of the blocks' own counts.
#include <cstdlib>
#include <string_view>

#include "data/prepare/block_reader.h"
#include "data/prepare/block_worker.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "fuzz/fuzz_file.h"

namespace {

using namespace trireme;
using namespace trireme::prepare;

void require(bool condition) {
  if (!condition) std::abort();
}

// Works on each block as it comes.
class WorkingSink final : public BlockSink {
 public:
  explicit WorkingSink(BlockWorker& worker) : worker_(worker) {}
  Block* fresh() override { return &block_; }
  bool may_grow(Block&) override { return true; }
  void put(Block* block) override {
    worker_.work(*block);
    int64_t tokens = block->open_tokens;
    for (const int32_t count : block->document_tokens) tokens += count;
    require(block->tokens.size() == static_cast<size_t>(tokens) * sizeof(uint16_t));
  }

 private:
  BlockWorker& worker_;
  Block block_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr const char* kNames[] = {"x.jsonl",    "x.txt",     "x.tar",    "x.jsonl.zst", "x.jsonl.gz",
                                    "x.jsonl.xz", "x.txt.zst", "x.tar.gz", "x.tar.zst",   "x.xz"};
  constexpr int64_t kMost = 1 << 22;
  if (size < 1) return 0;
  static const ByteTokenizer tokenizer;
  static BlockWorker worker({.key = "text",
                             .type = TokenType::uint16,
                             .end_of_document = EndOfDocument::append,
                             .on_error = OnError::skip,
                             .uncut_bytes = kMost},
                            tokenizer);
  const std::string name = fuzz_file(kNames[data[0] % std::size(kNames)], {reinterpret_cast<const char*>(data) + 1, size - 1});
  const InputFile file{name, *wrapping_of(name), static_cast<int64_t>(size) - 1};
  std::atomic<int64_t> bytes_read{0};
  WorkingSink sink(worker);
  const ReaderSettings settings{.line_bytes = kMost, .uncut_bytes = kMost, .decompressor_bytes = 1 << 23, .cuts = &tokenizer};
  require(BlockReader(settings, sink, bytes_read).read(file, {.end = file.bytes}, {}));
  return 0;
}
