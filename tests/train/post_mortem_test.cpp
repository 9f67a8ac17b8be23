// The page about the end of an attempt.
#include "train/post_mortem.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

class PostMortemTest : public testing::Test {
 protected:
  PostMortemTest() {
    for (int rank = 0; rank < 4; ++rank) {
      ranks_.push_back({.name = fmt::format("rank {} (node{}, process 47{})", rank, rank / 2, rank),
                        .activity = {.phase = RunPhase::step, .step = 16, .micro_batch = 2, .calls = 200, .waits = true},
                        .silence = 0.4,
                        .is_gone = false});
      page_.rank_logs.push_back(fmt::format("log-{}.txt", rank));
    }
    std::string lines;
    for (int i = 0; i < 5000; ++i) lines += fmt::format("line {}   \n", i);
    folder_.write("log-2.txt", lines);
  }
  bool has(const std::string& text, const std::string& part) const { return text.find(part) != std::string::npos; }

  TemporaryFolder folder_;
  std::vector<RankSeen> ranks_;
  PostMortem page_{.folder = RunFolder::shared(folder_.path()), .attempt = 3, .rank_logs = {}, .command = "trireme train demo"};
};

TEST_F(PostMortemTest, SaysWhoWhatWhereAndWhatNext) {
  ranks_[2].activity.waits = false;
  ranks_[2].activity.calls = 197;
  ranks_[2].activity.still = 9;
  const JobEnd end{.line = "rank 2 (node1, process 472) hangs: step 17", .rank = 2, .unnoticed = 9.25, .is_hang = true};
  const std::string text = page_.text(end, ranks_);
  EXPECT_TRUE(has(text, "attempt 3")) << text;
  EXPECT_TRUE(has(text, "\nrank 2 (node1, process 472) hangs: step 17\nWithout progress for 9.2 s"));
  EXPECT_TRUE(has(text, "\n  rank 2 (node1, process 472): step 17, micro-batch 3, collective 197, no progress for 9 s"));
  EXPECT_TRUE(has(text, "\n  ranks 0-1,3: step 17, micro-batch 3, waits for others, collectives 200 to 200\n"));
  EXPECT_TRUE(has(text, "log-2.txt:\n  line 4992\n")) << text;
  EXPECT_TRUE(has(text, "\n  line 4999\n"));
  EXPECT_TRUE(has(text, "Last lines of rank 0"));
  EXPECT_TRUE(has(text, "stack_globalrank-2.txt"));
  EXPECT_TRUE(has(text, "There is no checkpoint"));
}

TEST_F(PostMortemTest, OnePageForThousandsOfRanks) {
  for (int rank = 4; rank < 5000; ++rank) {
    ranks_.push_back(ranks_[0]);
    ranks_.back().activity.step = rank % 100;
  }
  const std::string text = page_.text({.line = "rank 2 (node1, process 472) died in step 17", .rank = 2}, ranks_);
  EXPECT_LT(std::ranges::count(text, '\n'), 60);
  EXPECT_TRUE(has(text, " more places\n"));
  EXPECT_TRUE(has(text, "dmesg"));
}

TEST_F(PostMortemTest, IsWrittenBesideEarlierOnes) {
  page_.write({.line = "something failed"}, ranks_);
  EXPECT_TRUE(has(read_file(folder_ / "post-mortem-3.txt", 1 << 20), "something failed"));
}

}  // namespace
}  // namespace trireme
