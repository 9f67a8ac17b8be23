// Blocks: what is in them, and that reading can go on after any of them.
#include "data/prepare/block_reader.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/crc32c.h"
#include "compress.h"
#include "data/expect_user_error.h"
#include "data/tokenizer/byte_tokenizer.h"
#include "support/temporary_folder.h"

namespace trireme::prepare {
namespace {

const ByteTokenizer kBytes;
constexpr int64_t kLineBytes = 3 << 20, kUncutBytes = 2 << 20;

class Collector final : public BlockSink {
 public:
  Block* fresh() override { return &blocks.emplace_back(); }
  bool may_grow(Block&) override { return true; }
  void put(Block* block) override { EXPECT_EQ(block, &blocks.back()); }

  std::string all() const {
    std::string bytes;
    for (const Block& block : blocks) bytes.append(block.bytes.data(), block.bytes.size());
    return bytes;
  }

  std::deque<Block> blocks;
};

InputFile file_of(const std::string& path) {
  return {path, *wrapping_of(path), static_cast<int64_t>(std::filesystem::file_size(path))};
}

void read(Collector& collector, const InputFile& file, const Unit& unit, const Position& from = {},
          const Tokenizer* cuts = &kBytes, const PassedChecksums& passed = {}) {
  std::atomic<int64_t> bytes_read{0};
  const ReaderSettings settings{
      .line_bytes = kLineBytes, .uncut_bytes = kUncutBytes, .decompressor_bytes = 1 << 23, .cuts = cuts};
  EXPECT_TRUE(BlockReader(settings, collector, bytes_read).read(file, unit, from, passed));
}

Unit whole(const InputFile& file) { return {.end = file.bytes}; }

std::string lines(size_t count, size_t longest) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += std::to_string(i) + std::string(i * 7919 % longest, 'x') + "\n";
  return text;
}

std::string prose(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += "It is line " + std::to_string(i * i) + (i % 5 == 0 ? "\n\n" : "\n");
  return text;
}

TEST(BlockReader, BlocksEndWithLinesAndHoldEverything) {
  const TemporaryFolder folder;
  const std::string text = lines(3000, 2000) + std::string(900000, 'y') + "\nlast line without an end";
  for (const auto compression : {Compression::none, Compression::zstd}) {
    const std::string path =
        folder.write(compression == Compression::none ? "a.jsonl" : "a.jsonl.zst", compress(compression, text));
    Collector collector;
    read(collector, file_of(path), whole(file_of(path)));
    EXPECT_EQ(collector.all(), text);
    EXPECT_GT(collector.blocks.size(), 4);
    int64_t line = 1, byte = 0;
    for (const Block& block : collector.blocks) {
      EXPECT_EQ(block.first_line, line);
      EXPECT_EQ(block.first_byte, byte);
      line = block.next.line;
      byte = block.next.byte;
      if (&block != &collector.blocks.back()) {
        EXPECT_EQ(block.bytes.data()[block.bytes.size() - 1], '\n');
      }
    }
    EXPECT_EQ(line, 3002);
  }
}

// A unit has the lines that begin in it, wherever the cuts are: together all lines, each once.
TEST(BlockReader, RangesOfAFileShareItsLines) {
  const TemporaryFolder folder;
  const std::string text = lines(200, 60) + std::string(700000, 'z') + "\n" + lines(3, 5) + "end";
  const InputFile file = file_of(folder.write("a.jsonl", text));
  for (const int64_t step : {1, 7, 100, 4096, 500000}) {
    if (step < 100 && text.size() > 100000) continue;
    Collector collector;
    for (const Unit& unit : cut_into_units({file}, step)) read(collector, file, unit);
    EXPECT_EQ(collector.all(), text) << step;
  }
  const InputFile small = file_of(folder.write("b.jsonl", "a\n\nbcd\ne\n\n\nfghijk\nl"));
  for (const int64_t step : {1, 2, 3, 5, 50}) {
    Collector collector;
    for (const Unit& unit : cut_into_units({small}, step)) read(collector, small, unit);
    EXPECT_EQ(collector.all(), "a\n\nbcd\ne\n\n\nfghijk\nl") << step;
  }
}

TEST(BlockReader, GoesOnAfterAnyBlock) {
  const TemporaryFolder folder;
  for (size_t i = 0; i < 40; ++i) folder.write("tar/" + std::to_string(i) + ".txt", prose(i * 100));
  folder.write("tar/big.txt", prose(60000));
  folder.write("tar/lines.jsonl", lines(2000, 1500));
  ASSERT_EQ(std::system(("cd " + folder.path().string() + " && tar --sort=name -cf t.tar tar && xz -1 -k t.tar").c_str()), 0);
  folder.write("a.jsonl", lines(3000, 1500));
  folder.write("a.jsonl.zst", compress_zstd(lines(3000, 1500)));
  folder.write("a.txt", prose(100000));
  std::filesystem::copy_file(folder / "t.tar.xz", folder / "unnamed.xz");
  for (const char* name : {"a.jsonl", "a.jsonl.zst", "a.txt", "t.tar", "t.tar.xz", "unnamed.xz"}) {
    const InputFile file = file_of((folder / name).string());
    Collector all;
    read(all, file, whole(file));
    ASSERT_GT(all.blocks.size(), 3) << name;
    constexpr uint32_t kBefore = 77;  // of the units before this one
    PassedChecksums passed{kBefore, kBefore};
    for (size_t done = 0; done < all.blocks.size(); ++done) {
      Collector rest;
      passed.after = crc32c(all.blocks[done].bytes.bytes(), passed.after);
      read(rest, file, whole(file), all.blocks[done].next, &kBytes, passed);
      // A plain file that has been read to its end gives one block with nothing in it.
      if (done + 1 == all.blocks.size()) {
        EXPECT_EQ(rest.all(), "") << name;
        continue;
      }
      ASSERT_EQ(rest.blocks.size(), all.blocks.size() - done - 1) << name;
      for (size_t i = 0; i < rest.blocks.size(); ++i) {
        const Block &expected = all.blocks[done + 1 + i], &found = rest.blocks[i];
        EXPECT_EQ(std::string_view(found.bytes.data(), found.bytes.size()),
                  std::string_view(expected.bytes.data(), expected.bytes.size()));
        EXPECT_EQ(found.next, expected.next);
        EXPECT_EQ(found.first_line, expected.first_line);
        EXPECT_EQ(found.continues, expected.continues);
        EXPECT_EQ(found.pieces.size(), expected.pieces.size());
      }
    }
  }
}

// What is unfolded again up to where reading goes on must be what it was.
TEST(BlockReader, WhatIsPassedOverIsCompared) {
  const TemporaryFolder folder;
  const std::string text = lines(3000, 1500);
  Collector all;
  const InputFile file = file_of(folder.write("a.jsonl.zst", compress_zstd(text)));
  read(all, file, whole(file));
  const PassedChecksums passed{0, crc32c(all.blocks[0].bytes.bytes(), 0)};
  Collector rest;
  read(rest, file, whole(file), all.blocks[0].next, &kBytes, passed);
  std::string other = text;
  other[1000] = other[1000] == 'x' ? 'y' : 'x';
  for (const std::string& changed : {other, text.substr(0, 1000), std::string()}) {
    const InputFile now = file_of(folder.write("a.jsonl.zst", compress_zstd(changed)));
    expect_user_error([&] { read(rest, now, whole(now), all.blocks[0].next, &kBytes, passed); },
                      {"a.jsonl.zst", "changed since"});
  }
}

std::vector<std::string> documents_of(const Collector& collector) {
  std::vector<std::string> documents;
  std::string open;
  for (const Block& block : collector.blocks) {
    if (block.content != Content::text) continue;
    EXPECT_EQ(block.continues, !open.empty());
    size_t begin = 0;
    for (const TextPiece& piece : block.pieces) {
      open.append(block.bytes.data() + begin, piece.end - begin);
      begin = piece.end;
      if (piece.how == PieceEnd::document) documents.push_back(std::exchange(open, ""));
    }
    EXPECT_EQ(begin, block.bytes.size());
  }
  EXPECT_EQ(open, "");
  return documents;
}

TEST(BlockReader, LongTextIsCutWhereThatIsSafeAndElseKeptTogether) {
  const TemporaryFolder folder;
  const std::string text = prose(100000), uncut(1500000, 'a');
  const std::string with_wall = prose(20000) + uncut + "\n" + prose(20000);
  for (const std::string& one : {text, uncut, with_wall, std::string(kBlockBytes, 'b'), std::string()}) {
    const InputFile file = file_of(folder.write("a.txt", one));
    for (const Tokenizer* cuts : {static_cast<const Tokenizer*>(&kBytes), static_cast<const Tokenizer*>(nullptr)}) {
      if (cuts == nullptr && one.size() > static_cast<size_t>(kUncutBytes)) continue;
      Collector collector;
      read(collector, file, whole(file), {}, cuts);
      EXPECT_EQ(documents_of(collector), std::vector<std::string>{one});
      if (cuts == nullptr) {
        EXPECT_EQ(collector.blocks.size(), 1);
      }
    }
  }
}

TEST(BlockReader, WhatIsTooLongIsPassedOver) {
  const TemporaryFolder folder;
  const std::string long_line(static_cast<size_t>(kLineBytes) + 600000, 'y');
  const InputFile file = file_of(folder.write("a.jsonl", "first\n" + long_line + "\nsecond\n" + long_line));
  Collector collector;
  read(collector, file, whole(file));
  EXPECT_EQ(collector.all(), "first\nsecond\n");
  Tally tally;
  for (const Block& block : collector.blocks) tally.add(block.tally);
  EXPECT_EQ(tally[Finding::too_long].count, 2);
  EXPECT_TRUE(contains(tally[Finding::too_long].first, "a.jsonl: line 2"));

  const InputFile text = file_of(folder.write("a.txt", std::string(static_cast<size_t>(kUncutBytes) + 600000, 'a')));
  Collector texts;
  read(texts, text, whole(text), {}, nullptr);
  EXPECT_EQ(documents_of(texts).size(), 0);
  EXPECT_EQ(texts.blocks.back().tally[Finding::too_long].count, 1);
  EXPECT_TRUE(
      contains(texts.blocks.back().tally[Finding::too_long].first, "more than 2.0 MiB of text without a place to cut it"));
}

}  // namespace
}  // namespace trireme::prepare
