// Files, compressed streams, archives and ranks: what prepare reads, and whose it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "compress.h"
#include "data/expect_user_error.h"
#include "data/prepare/byte_source.h"
#include "data/prepare/input_files.h"
#include "data/prepare/rank.h"
#include "data/prepare/tar_reader.h"
#include "support/temporary_folder.h"

namespace trireme::prepare {
namespace {

class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string bytes) : bytes_(std::move(bytes)) {}
  size_t read(std::span<char> to) override {
    const size_t count = std::min(to.size(), bytes_.size() - at_);
    std::copy_n(bytes_.begin() + static_cast<int64_t>(at_), count, to.begin());
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

std::string read_all(ByteSource& source, size_t step) {
  std::string all, piece(step, '\0');
  for (;;) {
    const size_t count = source.read(piece);
    all.append(piece, 0, count);
    if (count < step) return all;
  }
}

std::string unfold(Compression compression, const std::string& bytes, size_t step = 1000) {
  StringSource source(bytes);
  return read_all(*open_decompressor(compression, source, 1 << 23), step);
}

std::string some_text(size_t lines) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += "line " + std::to_string(i * i) + " of some text\n";
  return text;
}

constexpr Compression kAll[] = {Compression::zstd, Compression::gzip, Compression::xz};

TEST(Decompressor, UnfoldsStreamsOneAfterTheOther) {
  const std::string text = some_text(20000);
  for (const Compression compression : kAll) {
    EXPECT_EQ(unfold(compression, compress(compression, text)), text);
    EXPECT_EQ(unfold(compression, compress(compression, text) + compress(compression, "") + compress(compression, "more"), 77),
              text + "more");
    EXPECT_EQ(unfold(compression, ""), "");
  }
}

TEST(Decompressor, NamesTheByteWhereAStreamIsCutOffOrDamaged) {
  const std::string text = some_text(300);
  for (const Compression compression : kAll) {
    const std::string whole = compress(compression, text);
    for (size_t length = 1; length < whole.size(); ++length)
      expect_user_error([&] { unfold(compression, whole.substr(0, length)); }, {"byte ", "cut off"});
    std::string damaged = whole;
    damaged[0] = 'x';
    expect_user_error([&] { unfold(compression, damaged); }, {"byte 0", "damaged"});
    // No flipped bit gives other text in silence: all three formats here carry a checksum, zstd's own tool writes one, too.
    if (compression == Compression::zstd) continue;
    for (size_t at = 12; at < whole.size() - 12; at += 37) {
      damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      expect_user_error([&] { unfold(compression, damaged); }, {"byte "});
    }
  }
}

std::vector<InputFile> find(const std::vector<std::string>& entries) {
  std::vector<std::string> passed_over;
  std::vector<InputFile> files = find_input_files(entries, passed_over);
  EXPECT_TRUE(passed_over.empty());
  return files;
}

TEST(InputFiles, NamesSayWhatIsInside) {
  EXPECT_EQ(wrapping_of("a.jsonl.zst")->compression, Compression::zstd);
  EXPECT_EQ(wrapping_of("a.json.gz")->content, Content::json_lines);
  EXPECT_EQ(wrapping_of("a.txt")->content, Content::text);
  EXPECT_EQ(wrapping_of("a.tar.xz")->content, Content::tar);
  EXPECT_EQ(wrapping_of("a_data.xz")->content, Content::unknown);
  EXPECT_FALSE(wrapping_of("README.md"));
  EXPECT_FALSE(wrapping_of("a.zst"));
}

TEST(InputFiles, FoldersPatternsAndNumbers) {
  const TemporaryFolder folder;
  for (const char* name : {"02.jsonl.zst", "00.jsonl.zst", "sub/01.jsonl.zst", "notes.md"}) folder.write(name, "x");
  const auto files = find({folder.path().string()});
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(number_of_file(files[1].path), 2);
  EXPECT_EQ(select_files(files, "0-1").size(), 2);
  EXPECT_EQ(select_files(files, "2").size(), 1);
  EXPECT_EQ(find({(folder / "0*.zst").string()}).size(), 2);
  EXPECT_EQ(number_of_file("c4-train.00012-of-01024.json.gz"), 12);
  EXPECT_EQ(number_of_file("my-gpt3_07.jsonl"), 7);
  EXPECT_EQ(parse_file_numbers("0,3,5-7"), (std::set<int64_t>{0, 3, 5, 6, 7}));
  expect_user_error([&] { select_files(files, "0-3"); }, {"--files 0-3", "number 3"});
  for (const char* bad : {"", "a", "3-1", "1-", "-1", "1,,2", "0-99999999999"})
    expect_user_error([&] { parse_file_numbers(bad); }, {"--files", "0-29"});
  expect_user_error([&] { find({(folder / "none").string()}); }, {"none", "no such file"});
  expect_user_error([&] { find({(folder / "*.gz").string()}); }, {"*.gz", "no file matches"});
  expect_user_error([&] { find({(folder / "notes.md").string()}); }, {"notes.md", ".jsonl"});
  std::filesystem::create_directories(folder / "empty");
  expect_user_error([&] { find({(folder / "empty").string()}); }, {"empty", ".jsonl"});
}

TEST(InputFiles, NothingIsPassedOverWithoutAWord) {
  const TemporaryFolder folder;
  folder.write("in/a.txt", "a");
  folder.write("elsewhere/b.txt", "b");
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "in/linked");
  std::filesystem::create_symlink(folder / "elsewhere/b.txt", folder / "in/b.txt");  // a linked file is read
  std::filesystem::create_symlink(folder / "gone", folder / "in/README");            // no name of an input
  std::vector<std::string> passed_over;
  EXPECT_EQ(find_input_files({(folder / "in").string()}, passed_over).size(), 2);
  ASSERT_EQ(passed_over.size(), 1);
  EXPECT_TRUE(contains(passed_over[0], "in/linked: a linked folder is not looked into"));
  passed_over.clear();
  EXPECT_EQ(find_input_files({(folder / "in/[abl]*").string()}, passed_over).size(), 2);
  ASSERT_EQ(passed_over.size(), 1);
  EXPECT_TRUE(contains(passed_over[0], "in/linked: a folder that matches"));
  std::filesystem::create_symlink(folder / "gone.txt", folder / "in/c.txt");
  for (const char* entry : {"in", "in/*.txt", "in/c.txt"})
    expect_user_error([&] { find_input_files({(folder / entry).string()}, passed_over); }, {"in/c.txt", "gone.txt", "not there"});
}

TEST(InputFiles, LargePlainFilesAreCutIntoRanges) {
  const std::vector<InputFile> files = {{"a.jsonl", {Compression::none, Content::json_lines}, 25},
                                        {"b.jsonl.zst", {Compression::zstd, Content::json_lines}, 25},
                                        {"c.jsonl", {Compression::none, Content::json_lines}, 0}};
  const std::vector<Unit> expected = {{0, 0, 10}, {0, 10, 20}, {0, 20, 25}, {1, 0, 25}, {2, 0, 0}};
  EXPECT_EQ(cut_into_units(files, 10), expected);
}

TEST(Tar, ReadsWhatTarWrites) {
  const TemporaryFolder folder;
  const std::string long_name = std::string(90, 'd') + "/" + std::string(120, 'n') + ".txt";
  folder.write("in/a.txt", "alpha");
  folder.write("in/empty.txt", "");
  folder.write("in/" + long_name, some_text(100));
  std::filesystem::create_symlink("a.txt", folder / "in/link.txt");
  for (const char* format : {"gnu", "ustar --exclude=ddd*", "pax"}) {
    const std::string archive = (folder / "x.tar").string();
    ASSERT_EQ(
        std::system(
            ("cd " + (folder / "in").string() + " && tar --sort=name --format=" + format + " -cf " + archive + " .").c_str()),
        0);
    std::atomic<int64_t> read{0};
    const auto file = open_file_source(archive, 0, static_cast<int64_t>(std::filesystem::file_size(archive)), read);
    TarReader tar(*file);
    std::map<std::string, std::string> found;
    while (tar.next()) found[tar.name()] = read_all(tar, 100);
    EXPECT_EQ(found["./a.txt"], "alpha");
    EXPECT_EQ(found["./empty.txt"], "");
    const bool has_long = std::string(format).find("exclude") == std::string::npos;
    EXPECT_EQ(found.size(), has_long ? 3 : 2) << format;
    if (has_long) {
      EXPECT_EQ(found["./" + long_name], some_text(100)) << format;
    }
  }
}

TEST(Tar, SaysWhereItIsCutOffOrNotAnArchive) {
  const TemporaryFolder folder;
  folder.write("a.txt", some_text(100));
  ASSERT_EQ(std::system(("cd " + folder.path().string() + " && tar -cf x.tar a.txt").c_str()), 0);
  std::atomic<int64_t> read{0};
  const auto read_first = [&](int64_t bytes, const std::string& path) {
    const auto file = open_file_source(path, 0, bytes, read);
    TarReader tar(*file);
    while (tar.next()) read_all(tar, 100);
  };
  expect_user_error([&] { read_first(700, (folder / "x.tar").string()); }, {"byte 700", "cut off"});
  expect_user_error([&] { read_first(100, (folder / "x.tar").string()); }, {"byte 0", "cut off"});
  expect_user_error([&] { read_first(1000, (folder / "a.txt").string()); }, {"byte 0", "no tar header"});
}

Environment environment_of(std::map<std::string, std::string> values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(Rank, OptionsThenJobArrays) {
  const Environment none = environment_of({});
  EXPECT_EQ(find_rank(-1, -1, none), (Rank{}));
  EXPECT_EQ(find_rank(2, 3, none).rank, 2);
  const Environment array = environment_of({{"SLURM_ARRAY_TASK_ID", "7"},
                                            {"SLURM_ARRAY_TASK_COUNT", "4"},
                                            {"SLURM_ARRAY_TASK_MIN", "1"},
                                            {"SLURM_ARRAY_TASK_STEP", "2"}});
  EXPECT_EQ(find_rank(-1, -1, array), (Rank{3, 4, "SLURM_ARRAY_TASK_ID"}));
  EXPECT_EQ(find_rank(-1, 1, array), (Rank{}));
  EXPECT_EQ(find_rank(0, 2, array), (Rank{0, 2, "--rank"}));
  EXPECT_EQ(find_rank(-1, 8, environment_of({{"JOB_COMPLETION_INDEX", "5"}})), (Rank{5, 8, "JOB_COMPLETION_INDEX"}));
  EXPECT_EQ(find_rank(-1, -1, environment_of({{"JOB_COMPLETION_INDEX", "5"}})), (Rank{}));
  EXPECT_EQ(find_rank(-1, -1, environment_of({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})), (Rank{}));
  expect_user_error([&] { find_rank(3, 3, none); }, {"--rank 3", "--ranks 3"});
  expect_user_error([&] { find_rank(3, -1, none); }, {"--rank 3", "--ranks"});
  expect_user_error([&] { find_rank(-1, 3, none); }, {"--ranks 3", "--rank"});
  expect_user_error(
      [&] {
        find_rank(-1, -1, environment_of({{"SLURM_ARRAY_TASK_ID", "9"}, {"SLURM_ARRAY_TASK_COUNT", "3"}}));
      },
      {"SLURM_ARRAY_TASK_ID=9", "--rank"});
}

}  // namespace
}  // namespace trireme::prepare
