// trireme data prepare where it takes a while to get there: a line of a gigabyte, a disk that is really full.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/run_program.h"
#include "support/skip.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class DataPrepareSlowTest : public testing::Test {
 protected:
  std::string prepare(const std::string& input, const fs::path& output, const std::string& more = "") const {
    return fmt::format("data prepare {} --tokenizer bytes --append-eod --output {} {}", input, output.string(), more);
  }
  static std::string dataset(const fs::path& output) {
    const std::string prefix = output.string() + "_text_document";
    return read_file(prefix + ".bin", int64_t{1} << 32) + read_file(prefix + ".idx", int64_t{1} << 32);
  }

  TemporaryFolder folder_;
};

TEST_F(DataPrepareSlowTest, ALineOfAGigabyteIsNamedOrLeftOut) {
  constexpr int64_t kGigabyte = 1'000'000'000;
  const std::string good = "{\"text\": \"good\"}\n", input = folder_.write("a.jsonl", good + "{\"text\": \"");
  fs::resize_file(input, static_cast<uintmax_t>(kGigabyte));  // zeros, which take no disk
  std::ofstream(input, std::ios::app) << "\"}\n" << good;
  const auto stopped = run_program(prepare(input, folder_ / "stopped"));
  EXPECT_EQ(stopped.status, 2);
  EXPECT_TRUE(contains(stopped.output, "a.jsonl: line 2: the line has more than ")) << stopped.output;
  EXPECT_TRUE(contains(stopped.output, "--memory")) << stopped.output;

  const auto skipped = run_program(prepare(input, folder_ / "skipped", "--on-error skip"));
  ASSERT_EQ(skipped.status, 0) << skipped.output;
  const json report = json::parse(read_file(folder_ / "skipped_report.json", 1 << 20));
  EXPECT_EQ(report["documents"], 2);
  EXPECT_EQ(report["findings"]["too_long"]["count"], 1);
  EXPECT_LT(report["peak_memory_bytes"], int64_t{1} << 30);
}

// A small file system in memory, where this user may make one.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path path) : path_(std::move(path)) {
    fs::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=2m") == 0;
    if (!mounted_) why_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::string& why_not() const { return why_; }
  void make_larger() const { ASSERT_EQ(::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0); }

 private:
  fs::path path_;
  bool mounted_ = false;
  std::string why_;
};

TEST_F(DataPrepareSlowTest, AFullDiskIsALineAndTheRunGoesOnWhenThereIsRoom) {
  const SmallDisk disk(folder_ / "disk");
  if (!disk.mounted()) SKIP_FOR(machine) << "a file system for the test cannot be mounted: " << disk.why_not();
  // The beginning, by which the disk that is needed is judged, has little text; what follows has much.
  std::string text;
  for (int i = 0; i < 3000; ++i) text += fmt::format("{{\"text\": \"{}\", \"meta\": \"{}\"}}\n", i, std::string(1000, 'm'));
  for (int i = 0; i < 3000; ++i) text += fmt::format("{{\"text\": \"{} {}\"}}\n", i, std::string(1000, 't'));
  const std::string input = folder_.write("a.jsonl", text);
  const fs::path output = folder_ / "disk/out";
  ASSERT_EQ(run_program(prepare(input, folder_ / "right")).status, 0);

  const auto full = run_program(prepare(input, output));
  EXPECT_EQ(full.status, 1) << full.output;
  EXPECT_TRUE(contains(full.output, "No space left on device")) << full.output;
  EXPECT_TRUE(contains(full.output, "part-00000")) << full.output;
  EXPECT_FALSE(fs::exists(output.string() + "_text_document.idx"));
  EXPECT_FALSE(fs::exists(output.string() + "_text_document.bin"));

  disk.make_larger();
  const auto again = run_program(prepare(input, output));
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_EQ(dataset(output), dataset(folder_ / "right"));
  EXPECT_FALSE(fs::exists(output.string() + ".preparing"));

  // A disk that is too small from the start is seen before anything is written.
  std::string large;
  for (int i = 0; i < 100; ++i) large += fmt::format("{{\"text\": \"{}\"}}\n", std::string(1000000, 'x'));
  const auto small = run_program(prepare(folder_.write("b.jsonl", large), folder_ / "disk/b"));
  EXPECT_EQ(small.status, 2) << small.output;
  EXPECT_TRUE(contains(small.output, "are needed in")) << small.output;
  EXPECT_FALSE(fs::exists(folder_ / "disk/b.preparing"));
}

}  // namespace
}  // namespace trireme
