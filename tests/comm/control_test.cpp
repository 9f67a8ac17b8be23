// The control plane, between processes of their own: what ranks tell each other, and how all of them leave when one cannot go on.
#include "comm/control.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ControlTest : public testing::Test {
 protected:
  // Ranks meet through a file.
  ShareText share_of(int rank) const {
    return [this, rank](const std::string& text) {
      const std::filesystem::path path = folder_ / "address";
      if (rank == 0) atomic_write(path, bytes_of(text));
      while (!std::filesystem::exists(path)) std::this_thread::sleep_for(milliseconds(5));
      return read_file(path, 1 << 16);
    };
  }

  // Runs `work` as `size` ranks, each a process; returns their exit statuses, or 128 + the signal that killed them. What a rank
  // says with EXPECT is seen in its status.
  template <class Work>
  std::vector<int> on_ranks(int size, Work work) {
    std::filesystem::remove(folder_ / "address");
    std::vector<pid_t> children;
    for (int rank = 0; rank < size; ++rank) {
      const pid_t child = ::fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      try {
        Control control(meet(rank, size, Reach::machine, share_of(rank), {}), LastResort::none);
        work(control);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << ": " << error.what();
      }
      ::_exit(HasFailure() ? 99 : 0);
    }
    std::vector<int> statuses;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return statuses;
  }

  std::string said(int rank) const { return read_file(folder_ / std::to_string(rank), 1 << 16); }
  void say(int rank, const std::string& text) const { atomic_write(folder_ / std::to_string(rank), bytes_of(text)); }

  // Waits for what never comes; returns the line with which the job ends.
  static std::string wait_in_vain(Control& control) {
    return message_of<JobEnded>([&] {
      if (control.rank() == 0)
        control.gather("never", "");
      else
        control.share("never", "");
    });
  }

  TemporaryFolder folder_;
};

using ControlSlow = ControlTest;  // waits for heartbeats

TEST_F(ControlTest, WhatIsSaidOnceIsHeardByAll) {
  const std::vector<int> statuses = on_ranks(4, [](Control& control) {
    const std::string rank = std::to_string(control.rank());
    EXPECT_EQ(control.size(), 4);
    EXPECT_EQ(control.places()[static_cast<size_t>(control.rank())].process, ::getpid());
    for (int round = 0; round < 50; ++round) {
      const auto all = control.gather("round", rank);
      EXPECT_EQ(all, control.rank() == 0 ? std::vector<std::string>({"0", "1", "2", "3"}) : std::vector<std::string>());
      EXPECT_EQ(control.share("round", fmt::format("{} of {}", round, rank)), fmt::format("{} of 0", round));
    }
    EXPECT_EQ(control.first_of("trouble", control.rank() < 2 ? "" : "trouble of " + rank), "trouble of 2");
    EXPECT_EQ(control.first_of("trouble", ""), "");
    const std::string long_text(3 << 20, 'x');  // longer than a socket holds
    for (const std::string& text : control.gather("long", long_text)) EXPECT_EQ(text, long_text);
  });
  EXPECT_EQ(statuses, std::vector<int>(4, 0));
}

TEST_F(ControlTest, ARankThatDiesIsNamed) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.activity().begin_step(16);
    control.first_of("begin", "");
    if (control.rank() == 2) ::kill(::getpid(), SIGKILL);
    EXPECT_EQ(wait_in_vain(control), control.name_of(2) + " died in step 17");
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0, 128 + SIGKILL}));
}

TEST_F(ControlTest, TheFirstRankThatDiesIsNamedByTheOthers) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.first_of("begin", "");
    if (control.rank() == 0) ::kill(::getpid(), SIGKILL);
    EXPECT_EQ(wait_in_vain(control), control.name_of(0) + " died before the first step");
    EXPECT_EQ(control.speaks(), control.rank() == 1);
    // Nobody leaves before the others have heard of it.
    std::this_thread::sleep_for(milliseconds(300));
  });
  EXPECT_EQ(statuses, std::vector<int>({128 + SIGKILL, 0, 0}));
}

// A launcher that sees a rank die may give the others a second: it is said before whoever computes has noticed, and once.
TEST_F(ControlTest, ADeathIsSaidAtOnce) {
  for (const int victim : {2, 0}) {
    const int speaker = victim == 0 ? 1 : 0;
    const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
      const std::string path = folder_ / fmt::format("heard-{}", control.rank());
      ASSERT_EQ(::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO), STDERR_FILENO);
      const auto heard = [&] { return read_file(path, 1 << 16); };
      control.first_of("begin", "");
      if (control.rank() == victim) ::kill(::getpid(), SIGKILL);
      for (int turn = 0; control.rank() == speaker && heard().empty() && turn < 2000; ++turn)
        std::this_thread::sleep_for(milliseconds(5));
      const std::string line = control.name_of(victim) + " died before the first step";
      EXPECT_EQ(heard(), control.rank() == speaker ? "trireme: " + line + "\n" : "");
      EXPECT_EQ(wait_in_vain(control), line);
      control.say({.line = line});
      EXPECT_EQ(heard(), control.rank() == speaker ? "trireme: " + line + "\n" : "");
      control.wait_for_speaker();
    });
    std::vector<int> expected(3, 0);
    expected[static_cast<size_t>(victim)] = 128 + SIGKILL;
    EXPECT_EQ(statuses, expected);
  }
}

TEST_F(ControlTest, AFailureEndsTheJobOnAllRanks) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.first_of("begin", "");
    const std::string line = control.name_of(1) + ": a.b=c; use d";
    if (control.rank() == 1) {
      const JobEnd end = control.settle({.status = 2, .line = "a.b=c; use d"}, true);
      EXPECT_EQ(end.line, line);
      EXPECT_EQ(end.status, 2);
    } else {
      EXPECT_EQ(wait_in_vain(control), line);
    }
    EXPECT_EQ(control.speaks(), control.rank() == 0);
    control.wait_for_speaker();
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

// A mistake that every rank finds is told in the words of rank 0, without the name of a rank.
TEST_F(ControlTest, AMistakeOfAllIsToldOnce) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.first_of("begin", "");
    if (control.rank() == 0) std::this_thread::sleep_for(milliseconds(200));
    const JobEnd end = control.settle({.status = 2, .line = "a.b=c; use d"}, true);
    EXPECT_EQ(end.status, 2);
    if (control.rank() == 0) {
      EXPECT_EQ(end.line, "a.b=c; use d");
    }
    control.wait_for_speaker();
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

// A failure that several ranks find is told as nobody's too, even if another rank's word of it came first.
TEST_F(ControlTest, AFailureOfAllIsToldOnce) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.first_of("begin", "");
    if (control.rank() == 0) std::this_thread::sleep_for(milliseconds(200));
    const JobEnd end = control.settle({.status = 1, .line = "the disk is full"}, false);
    EXPECT_TRUE(end.line.ends_with("the disk is full"));
    if (control.rank() == 0) {
      EXPECT_EQ(end.line, "the disk is full");
    }
    EXPECT_EQ(control.speaks(), control.rank() == 0);
    control.wait_for_speaker();
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST_F(ControlTest, WhoLeavesWithAGoodbyeIsNotMissed) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.first_of("begin", "");
    if (control.rank() == 2) return;
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_EQ(control.share("still here", control.rank() == 0 ? "yes" : ""), "yes");
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST_F(ControlSlow, SaysWhoDidNotArrive) {
  const std::vector<int> statuses = on_ranks(4, [&](Control& control) {
    const uint64_t begun = control.rank() == 1 || control.rank() == 3 ? 6 : 7;
    control.connect([begun] { return Control::Communication{.calls = {{.group = 3, .stream = 16, .count = begun}}}; }, {});
    control.first_of("begin", "");
    const std::string both = control.name_of(1) + " did not arrive, " + control.name_of(3) + " did not arrive";
    EXPECT_EQ(control.missing_text({0, 1, 2, 3}, {.group = 3, .stream = 16, .count = 7}), both);
    EXPECT_EQ(control.missing_text({0, 2}, {.group = 3, .stream = 16, .count = 7}), "all of them arrived");
    control.first_of("end", "");
  });
  EXPECT_EQ(statuses, std::vector<int>(4, 0));
}

TEST_F(ControlSlow, ARankThatStandsStillIsSilent) {
  const std::vector<int> statuses = on_ranks(3, [&](Control& control) {
    control.set_timeout(seconds(4));
    control.first_of("begin", "");
    if (control.rank() == 1) {
      say(1, std::to_string(::getpid()));
      ::kill(::getpid(), SIGSTOP);
      ::_exit(0);  // once somebody wakes it
    }
    if (control.rank() == 2) return;
    EXPECT_TRUE(contains(wait_in_vain(control), "s for " + control.name_of(1) + " (\"never\"), and heard nothing of it"));
    EXPECT_TRUE(contains(control.missing_text({0, 1}, {.group = 3, .stream = 16, .count = 1}),
                         control.name_of(1) + " did not arrive and has been silent for "));
    ::kill(std::stoi(said(1)), SIGCONT);
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST(ControlAlone, HasNobodyToWaitFor) {
  Control control;
  EXPECT_EQ(control.gather("key", "mine"), std::vector<std::string>({"mine"}));
  EXPECT_EQ(control.share("key", "mine"), "mine");
  EXPECT_EQ(control.first_of("key", ""), "");
  EXPECT_TRUE(control.speaks());
}

TEST(RankPlaceTest, CoresAreShared) {
  const std::vector<RankPlace> places = {{"a", 1, {0, 1, 2, 3}}, {"a", 2, {0, 1, 2, 3}}, {"b", 3, {0, 1}},
                                         {"b", 4, {2, 3}},       {"b", 5, {4}},          {"c", 6, {}}};
  const int threads[] = {2, 2, 2, 2, 1, 1}, local_ranks[] = {0, 1, 0, 1, 2, 0}, sharing[] = {2, 2, 3, 3, 3, 1};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(threads_of(places, rank), threads[rank]) << rank;
    EXPECT_EQ(local_rank_of(places, rank), local_ranks[rank]) << rank;
    EXPECT_EQ(ranks_on_host(places, rank), sharing[rank]) << rank;
  }
  EXPECT_EQ(hosts_of(places), 3);
  EXPECT_EQ(range_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(range_text({}), "");
}

}  // namespace
}  // namespace trireme
