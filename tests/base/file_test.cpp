#include "base/file.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/file_size_limit.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

constexpr int64_t kLimit = 1000;

size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(File, WritesAndReadsBack) {
  const TemporaryFolder folder;
  File file = File::create(folder / "a");
  file.write("hello, ");
  file.write("world");
  file.sync();
  EXPECT_EQ(file.size(), 12);
  EXPECT_EQ(read_file(folder / "a", kLimit), "hello, world");

  std::string part(5, ' ');
  File::open(folder / "a").read_at(7, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "world");
}

TEST(File, CreateEmptiesAndAppendKeeps) {
  const TemporaryFolder folder;
  File::create(folder / "a").write("first");
  File::create(folder / "a").write("2nd");
  File::open_append(folder / "a").write(" third");
  EXPECT_EQ(read_file(folder / "a", kLimit), "2nd third");
}

TEST(File, AppendersDoNotOverwriteEachOther) {
  const TemporaryFolder folder;
  File one = File::open_append(folder / "log"), two = File::open_append(folder / "log");
  one.write("a\n");
  two.write("b\n");
  one.write("c\n");
  EXPECT_EQ(read_file(folder / "log", kLimit), "a\nb\nc\n");
}

TEST(File, ReadingPastTheEndSaysWhere) {
  const TemporaryFolder folder;
  File::create(folder / "short").write("1234");
  std::string eight(8, ' ');
  const auto read = [&] { File::open(folder / "short").read_at(2, std::as_writable_bytes(std::span(eight))); };
  EXPECT_TRUE(contains(message_of<Failure>(read), "short ends at byte 4; 6 more were expected"));
}

TEST(File, MissingFilesAndFoldersAreNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(contains(message_of<Failure>([&] { File::open(folder / "none"); }), "none: No such file or directory"));
  EXPECT_TRUE(contains(message_of<Failure>([&] { read_file(folder.path(), kLimit); }), "Is a directory"));
  EXPECT_TRUE(contains(message_of<Failure>([&] { free_bytes(folder / "none"); }), "none: No such file"));
}

TEST(ReadFile, RefusesWhatIsTooLong) {
  const TemporaryFolder folder;
  File::create(folder / "a").write(std::string(kLimit, 'x'));
  EXPECT_EQ(read_file(folder / "a", kLimit).size(), kLimit);
  EXPECT_TRUE(contains(message_of<Failure>([&] { read_file(folder / "a", kLimit - 1); }), "more than the 999 bytes allowed"));
  // A file without an end and without a size.
  EXPECT_TRUE(contains(message_of<Failure>([&] { read_file("/dev/zero", 1 << 20); }), "more than"));
}

TEST(ReadFile, DoesNotNeedTheSize) { EXPECT_TRUE(contains(read_file("/proc/self/status", 1 << 20), "Pid:")); }

TEST(AtomicWrite, ReplacesTheWholeFile) {
  const TemporaryFolder folder;
  atomic_write(folder / "a", bytes_of("a long first version"));
  atomic_write(folder / "a", bytes_of("second"));
  EXPECT_EQ(read_file(folder / "a", kLimit), "second");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(AtomicWrite, AFullDiskLeavesTheOldContentsAndNothingElse) {
  const TemporaryFolder folder;
  atomic_write(folder / "a", bytes_of("old"));
  {
    const FileSizeLimit full(100);
    const std::string text(200, 'n');
    EXPECT_TRUE(contains(message_of<Failure>([&] { atomic_write(folder / "a", bytes_of(text)); }), "File too large"));
  }
  EXPECT_EQ(read_file(folder / "a", kLimit), "old");
  EXPECT_EQ(entries_in(folder.path()), 1U);
}

TEST(RenameOrExchange, TakesAFreeNameOrChangesPlaces) {
  const TemporaryFolder folder;
  create_folders(folder / "new/deep");
  rename_or_exchange(folder / "new", folder / "final");
  EXPECT_TRUE(std::filesystem::exists(folder / "final/deep"));
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));

  create_folders(folder / "new/deeper");
  rename_or_exchange(folder / "new", folder / "final");
  EXPECT_TRUE(std::filesystem::exists(folder / "final/deeper"));
  EXPECT_TRUE(std::filesystem::exists(folder / "new/deep"));
  EXPECT_THROW(rename_or_exchange(folder / "none", folder / "other"), Failure);
}

TEST(Folders, AreMadeAndRemovedWithAllBelow) {
  const TemporaryFolder folder;
  create_folders(folder / "a/b/c/");
  create_folders(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  remove_tree(folder / "a");
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  EXPECT_NO_THROW(remove_tree(folder / "a"));
}

TEST(Folders, AFileInTheWayIsNamed) {
  const TemporaryFolder folder;
  File::create(folder / "file");
  const std::string message = message_of<Failure>([&] { create_folders(folder / "file/a/b"); });
  EXPECT_TRUE(contains(message, "cannot create the folder " + (folder / "file").string() + ": "));
}

TEST(FreeSpace, OneLineSaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_GT(free_bytes(folder.path()), 0);
  EXPECT_NO_THROW(require_free_space(folder.path(), 1, "cannot save"));
  const auto ask = [&] { require_free_space(folder.path(), std::numeric_limits<int64_t>::max(), "cannot save step-00000001"); };
  const std::string message = message_of<Failure>(ask);
  EXPECT_TRUE(
      message.starts_with("cannot save step-00000001: it needs 8589934592.0 GiB in " + folder.path().string() + ", where "));
  EXPECT_TRUE(message.ends_with("iB is free"));
}

}  // namespace
}  // namespace trireme
