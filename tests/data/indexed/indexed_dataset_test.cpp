// The two files of a Megatron dataset: written byte for byte, read back, and refused when anything is wrong with them.
#include "data/indexed/indexed_dataset.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/file.h"
#include "data/expect_user_error.h"
#include "data/indexed/indexed_writer.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using Int32s = std::vector<int32_t>;

std::string contents(const std::string& path) { return read_file(path, 1 << 20); }

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// What Megatron's builder writes for documents [5 6 7], [], [8], [9 300], put together by hand.
std::string expected_index() {
  std::string bytes("MMIDIDX\0\0", 9);
  put<uint64_t>(bytes, 1);
  put<uint8_t>(bytes, 8);
  put<uint64_t>(bytes, 3);
  put<uint64_t>(bytes, 5);
  for (const int32_t length : {3, 1, 2}) put(bytes, length);
  for (const int64_t pointer : {0, 6, 8}) put(bytes, pointer);
  for (const int64_t start : {0, 1, 1, 2, 3}) put(bytes, start);
  return bytes;
}

std::string write_small(const TemporaryFolder& folder, const std::string& name = "small") {
  const std::string prefix = (folder / name).string();
  IndexedDatasetWriter writer(prefix, token_type_for(50257));
  for (const Int32s& document : std::vector<Int32s>{{5, 6, 7}, {}, {8}, {9, 300}}) {
    if (!document.empty()) writer.add_sequence(document);
    writer.end_document();
  }
  writer.finish();
  return prefix;
}

TEST(IndexedWriter, WritesTheBytesThatMegatronWrites) {
  const TemporaryFolder folder;
  const std::string prefix = write_small(folder);
  EXPECT_EQ(contents(prefix + ".idx"), expected_index());
  EXPECT_EQ(contents(prefix + ".bin"), std::string("\5\0\6\0\7\0\10\0\11\0\54\1", 12));
  // Nothing else stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(IndexedWriter, BlocksAndSingleSequencesGiveTheSameFiles) {
  const TemporaryFolder folder;
  const std::string one = write_small(folder);
  const std::string other = (folder / "blocks").string();
  IndexedDatasetWriter writer(other, TokenType::uint16);
  const std::vector<uint16_t> tokens{5, 6, 7, 8, 9, 300};
  const Int32s lengths{3, 1, 2};
  const std::vector<int64_t> ends{1, 1, 2, 3};
  writer.append({.tokens = std::as_bytes(std::span(tokens)), .sequence_lengths = lengths, .document_ends = ends, .modes = {}});
  EXPECT_EQ(writer.tokens(), 6);
  EXPECT_EQ(writer.documents(), 4);
  writer.finish();
  EXPECT_EQ(contents(one + ".idx"), contents(other + ".idx"));
  EXPECT_EQ(contents(one + ".bin"), contents(other + ".bin"));
}

// More than any buffer holds, so that the parts that wait in files are read back in pieces.
TEST(IndexedWriter, ManySequences) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "many").string();
  constexpr int64_t kSequences = 400000;
  {
    IndexedDatasetWriter writer(prefix, TokenType::int32);
    for (int64_t i = 0; i < kSequences; ++i) {
      const Int32s tokens(static_cast<size_t>(i % 5), static_cast<int32_t>(i));
      writer.add_sequence(tokens);
      if (i % 2 == 1) writer.end_document();
    }
    writer.finish();
  }
  const IndexedDataset data(prefix);
  EXPECT_EQ(data.sequences(), kSequences);
  EXPECT_EQ(data.documents(), kSequences / 2);
  EXPECT_EQ(data.tokens(), kSequences * 2);
  int64_t pointer = 0;
  for (int64_t i = 0; i < kSequences; ++i) {
    ASSERT_EQ(data.length(i), i % 5);
    ASSERT_EQ(data.pointer(i), pointer);
    pointer += 4 * (i % 5);
    Int32s tokens(static_cast<size_t>(i % 5));
    data.read(i, 0, tokens);
    for (const int32_t token : tokens) ASSERT_EQ(token, i);
  }
  for (int64_t i = 0; i <= data.documents(); ++i) ASSERT_EQ(data.document_start(i), 2 * i);
}

TEST(IndexedWriter, LeavesNothingWhenItIsNotFinished) {
  const TemporaryFolder folder;
  {
    IndexedDatasetWriter writer((folder / "gone").string(), TokenType::uint16);
    writer.add_sequence(Int32s{1, 2});
    expect_user_error([&] { writer.add_sequence(Int32s{70000}); }, {"70000", "uint16"});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(IndexedWriter, ReplacesOnlyWhenTold) {
  const TemporaryFolder folder;
  const std::string prefix = write_small(folder);
  expect_user_error([&] { IndexedDatasetWriter(prefix, TokenType::uint16); }, {"small.bin", "there already"});
  expect_user_error([&] { IndexedDatasetWriter((folder / "no/such").string(), TokenType::uint16); }, {"no", "does not exist"});
  {
    IndexedDatasetWriter writer(prefix, TokenType::uint16, Replace::yes);
    writer.add_sequence(Int32s{1});
    writer.end_document();
    EXPECT_EQ(contents(prefix + ".idx"), expected_index());  // the old one is whole until the new one is
    writer.finish();
  }
  EXPECT_EQ(IndexedDataset(prefix).tokens(), 1);
}

TEST(IndexedDataset, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string prefix = write_small(folder);
  for (const char* suffix : {"", ".bin", ".idx"}) {
    const IndexedDataset data(prefix + suffix);
    EXPECT_EQ(data.prefix(), prefix);
    EXPECT_EQ(data.sequences(), 3);
    EXPECT_EQ(data.documents(), 4);
    EXPECT_EQ(data.tokens(), 6);
    EXPECT_EQ(data.tokens({1, 3}), 3);
    EXPECT_EQ(data.document_lengths()[2], 2);
    Int32s tokens(2);
    data.read(0, 1, tokens);
    EXPECT_EQ(tokens, (Int32s{6, 7}));
    data.read(2, 0, tokens);
    EXPECT_EQ(tokens, (Int32s{9, 300}));
  }
}

TEST(IndexedDataset, NoDocumentsAtAll) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "empty").string();
  IndexedDatasetWriter(prefix, TokenType::uint16).finish();
  const IndexedDataset data(prefix);
  EXPECT_EQ(data.sequences(), 0);
  EXPECT_EQ(data.documents(), 0);
  EXPECT_EQ(data.tokens(), 0);
}

TEST(IndexedDataset, ModesOfAMultimodalDataset) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "modes").string();
  {
    IndexedDatasetWriter writer(prefix, TokenType::int32, Replace::no, SequenceModes::kept);
    writer.add_sequence(Int32s{1, 2}, 0);
    writer.add_sequence(Int32s{3}, 7);
    writer.end_document();
    writer.finish();
  }
  const IndexedDataset data(prefix);
  EXPECT_TRUE(data.multimodal());
  EXPECT_EQ(data.mode(1), 7);
}

TEST(TokenType, EveryTypeKeepsItsTokens) {
  for (const TokenType type : {TokenType::uint8, TokenType::int8, TokenType::int16, TokenType::int32, TokenType::int64,
                               TokenType::uint16, TokenType::uint32}) {
    const Int32s tokens{0, 1, 100, 127};
    std::vector<std::byte> bytes(static_cast<size_t>(4 * size_of(type)) + 1);
    store_tokens(tokens, type, bytes.data() + 1);  // not aligned
    Int32s back(4);
    load_tokens(bytes.data() + 1, type, back);
    EXPECT_EQ(back, tokens) << name_of(type);
  }
  EXPECT_EQ(token_type_for(65499), TokenType::uint16);
  EXPECT_EQ(token_type_for(65500), TokenType::int32);
  const int64_t too_large = int64_t{1} << 40;
  Int32s one(1);
  load_tokens(reinterpret_cast<const std::byte*>(&too_large), TokenType::int64, one);
  EXPECT_EQ(one[0], std::numeric_limits<int32_t>::max());
}

// ------------------------------------------------------------------------------------------------------------------ bad files

struct Damage {
  const char* name;
  std::function<void(std::string& idx, std::string& bin)> make;
  std::vector<std::string> words;  // in the message
};

template <class T>
void overwrite(std::string& bytes, size_t at, T value) {
  bytes.replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
}

const std::vector<Damage>& damages() {
  // The index of write_small: lengths at 34, pointers at 46, document entries at 70, end at 110.
  static const std::vector<Damage> all{
      {"empty", [](auto& idx, auto&) { idx.clear(); }, {"bad.idx: byte 0", "ends inside its header"}},
      {"half a header", [](auto& idx, auto&) { idx.resize(20); }, {"bad.idx: byte 20", "header of 34 bytes"}},
      {"not an index", [](auto& idx, auto&) { idx[0] = 'X'; }, {"bad.idx: byte 0", "MMIDIDX"}},
      {"fairseq", [](auto& idx, auto&) { idx.replace(0, 8, "TNTIDX\0\0", 8); }, {"byte 0", "TNTIDX"}},
      {"version", [](auto& idx, auto&) { overwrite<uint64_t>(idx, 9, 2); }, {"bad.idx: byte 9", "version 2"}},
      {"type 0", [](auto& idx, auto&) { overwrite<uint8_t>(idx, 17, 0); }, {"bad.idx: byte 17", "code 0", "not known"}},
      {"type 9", [](auto& idx, auto&) { overwrite<uint8_t>(idx, 17, 9); }, {"byte 17", "code 9"}},
      {"type 64", [](auto& idx, auto&) { overwrite<uint8_t>(idx, 17, 64); }, {"byte 17", "code 64"}},
      {"floats", [](auto& idx, auto&) { overwrite<uint8_t>(idx, 17, 6); }, {"byte 17", "floating-point"}},
      {"another type", [](auto& idx, auto&) { overwrite<uint8_t>(idx, 17, 4); }, {"bad.bin: 12 bytes", "byte 16"}},
      {"cut off", [](auto& idx, auto&) { idx.resize(100); }, {"bad.idx: byte 100", "cut off", "3 sequences"}},
      {"too many sequences", [](auto& idx, auto&) { overwrite<uint64_t>(idx, 18, ~uint64_t{0}); }, {"cut off"}},
      {"too many documents", [](auto& idx, auto&) { overwrite<uint64_t>(idx, 26, uint64_t{1} << 61); }, {"cut off"}},
      {"no document entry", [](auto& idx, auto&) { overwrite<uint64_t>(idx, 26, 0); }, {"byte 26", "no document entries"}},
      {"more at the end", [](auto& idx, auto&) { idx += "ab"; }, {"byte 110", "2 bytes follow"}},
      {"first document", [](auto& idx, auto&) { overwrite<int64_t>(idx, 70, 1); }, {"byte 70", "sequence 1 instead of 0"}},
      {"last document", [](auto& idx, auto&) { overwrite<int64_t>(idx, 102, 2); }, {"byte 102", "sequence 2", "there are 3"}},
      {"first pointer", [](auto& idx, auto&) { overwrite<int64_t>(idx, 46, 2); }, {"byte 46", "byte 2 of the .bin"}},
      {"last pointer", [](auto& idx, auto&) { overwrite<int64_t>(idx, 62, 10); }, {"bad.bin: 12 bytes", "byte 62", "byte 14"}},
      {"last length", [](auto& idx, auto&) { overwrite<int32_t>(idx, 42, -3); }, {"byte 42", "-3 tokens"}},
      {"pointer beyond all", [](auto& idx, auto&) { overwrite<int64_t>(idx, 62, INT64_MAX); }, {"bad.bin: 12 bytes"}},
      {"short .bin", [](auto&, auto& bin) { bin.pop_back(); }, {"bad.bin: 11 bytes", "byte 12"}},
      {"long .bin", [](auto&, auto& bin) { bin += "x"; }, {"bad.bin: 13 bytes", "byte 12"}},
      {"tokens without sequences",
       [](auto& idx, auto&) { idx = std::string(expected_index(), 0, 18) + std::string(8, '\0') + '\1' + std::string(15, '\0'); },
       {"bad.bin: 12 bytes", "no sequences"}},
  };
  return all;
}

TEST(IndexedDataset, EveryDamageIsOneLineThatNamesFileAndByte) {
  const TemporaryFolder folder;
  const std::string good = write_small(folder);
  const std::string prefix = (folder / "bad").string();
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.name);
    std::string idx = contents(good + ".idx"), bin = contents(good + ".bin");
    damage.make(idx, bin);
    folder.write("bad.idx", idx);
    folder.write("bad.bin", bin);
    expect_user_error([&] { IndexedDataset data(prefix); }, damage.words);
  }
}

TEST(IndexedDataset, MissingFiles) {
  const TemporaryFolder folder;
  const std::string prefix = (folder / "none").string();
  expect_user_error([&] { IndexedDataset data(prefix); }, {"none.idx does not exist", "none.bin"});
  folder.write("none.idx", expected_index());
  expect_user_error([&] { IndexedDataset data(prefix); }, {"none.bin does not exist"});
  std::filesystem::create_directory(prefix + ".bin");
  expect_user_error([&] { IndexedDataset data(prefix); }, {"none.bin", "not a regular file"});
}

// Damage in the middle is met when it is read; a full check finds it beforehand.
TEST(IndexedDataset, DamageInTheMiddleIsMetWhenItIsRead) {
  const TemporaryFolder folder;
  const std::string prefix = write_small(folder);
  Int32s tokens(4);
  for (const int64_t pointer : {int64_t{-2}, int64_t{100}, int64_t{2}}) {
    std::string idx = expected_index();
    overwrite<int64_t>(idx, 54, pointer);  // of sequence 1
    folder.write("small.idx", idx);
    const IndexedDataset data(prefix);
    expect_user_error([&] { data.read(0, 0, tokens); }, {"small.idx: byte", "trireme data verify"});
  }
}

}  // namespace
}  // namespace trireme
