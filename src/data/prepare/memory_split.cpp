#include "data/prepare/memory_split.h"

#include <algorithm>

#include "base/error.h"
#include "data/prepare/block.h"

namespace trireme::prepare {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Upper bounds over all inputs, from the sizes in block.h: bytes, tokens of one byte each, lines of 12 bytes.
constexpr int64_t kBlockMost = 5 * kMiB;
constexpr int64_t kWorkerMost = 16 * kMiB;   // scratch for a block
constexpr int64_t kEncoderMost = 21 * kMiB;  // the word cache: 16 MiB for short words, the rest for long ones
constexpr int64_t kLaneMost = 3 * kMiB;
constexpr int64_t kLongPieceMost =
    48 * kMiB;  // a long piece of text takes four times its size as tokens, and more while their buffer grows

int64_t least_blocks(int64_t workers, int64_t lanes) { return workers + lanes + 1; }

}  // namespace

int64_t default_memory(int64_t workers) {
  constexpr int64_t kLeast = 1024 * kMiB, kEach = 2 * (kWorkerMost + kEncoderMost);
  return std::max(kLeast, workers * kEach);
}

MemorySplit split_memory(int64_t memory, int64_t used, int64_t workers, int64_t lanes, TokenType type) {
  MemorySplit split;
  const int64_t fixed = used + workers * (kWorkerMost + kEncoderMost) + lanes * kLaneMost + kLongPieceMost;
  const int64_t least = fixed + least_blocks(workers, lanes) * kBlockMost + memory / 8;
  if (least > memory - memory / 8)
    throw UserError("--memory {} MiB is too little for {} workers; give at least {} MiB, or fewer --workers", memory / kMiB,
                    workers, round_up(least * 4 / 3, 64 * kMiB) / kMiB);
  split.decompressor_bytes = memory / 8 / lanes;
  const int64_t free = memory - fixed - memory / 8;
  split.blocks = std::clamp(free / 2 / kBlockMost, least_blocks(workers, lanes), 3 * workers + 4 * lanes);
  // Memory for a long line: the line as read, the unescaped text, and up to one token per byte. A stretch without a place to cut,
  // at most an eighth of it, takes up to eleven times its size while it is repaired and encoded.
  const int64_t large = free - split.blocks * kBlockMost;
  split.line_bytes = std::max<int64_t>(large / (4 + size_of(type)), kBlockBytes);
  split.uncut_bytes = std::max<int64_t>(split.line_bytes / 8, kBlockBytes);
  split.assemble_bytes = memory - used - 8 * kMiB;
  return split;
}

}  // namespace trireme::prepare
