// Ranks that meet: who is let in, who is sent away, what is said while somebody is missing, and how the others end when one of
// them dies or differs.
#include "comm/meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <latch>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kHere = "127.0.0.1";

TcpConnection connect_to(int port) {
  std::string why;
  TcpConnection connection = TcpConnection::try_open(kHere, port, seconds(5), why);
  EXPECT_TRUE(connection.is_open()) << why;
  return connection;
}

void say_raw(TcpConnection& connection, const std::string& bytes) {
  EXPECT_EQ(::send(connection.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

Greeting greeting_of(int rank, int size, const std::string& job) {
  return {.secret = secret_of(job), .rank = rank, .size = size, .program = "p", .place = {}, .addresses = {}};
}

// ------------------------------------------------------------------------------------------------------------- the door

TEST(DoorTest, GreetingsSurviveTheirText) {
  const Greeting greeting{.secret = "s",
                          .rank = 3,
                          .size = 4,
                          .program = "trireme 1",
                          .recipe = "r",
                          .place = {.host = "node", .process = 17, .cores = {0, 2}},
                          .addresses = {"10.0.0.1", "node"},
                          .port = 4711};
  const auto read = greeting_from(json_of(greeting));
  ASSERT_TRUE(read);
  EXPECT_EQ(json_of(*read), json_of(greeting));
  const nlohmann::json whole = json_of(greeting);
  for (const auto& entry : whole.items()) {
    nlohmann::json broken = whole;
    broken[entry.key()] = nlohmann::json::array({nlohmann::json::object()});
    EXPECT_FALSE(greeting_from(broken)) << entry.key();
    broken.erase(entry.key());
    EXPECT_FALSE(greeting_from(broken)) << entry.key();
  }
}

// None of them is answered with anything but a closed connection, and a rank that comes after them is let in at once.
TEST(DoorTest, StrangersKeepNobodyWaiting) {
  Door door(TcpListener(0, Reach::machine), secret_of("job"), 2);
  std::vector<TcpConnection> strangers;
  constexpr int kSilent = 200;  // more than are kept
  for (int i = 0; i < kSilent; ++i) strangers.push_back(connect_to(door.port()));
  const std::string texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                               std::string("\x16\x03\x01\x02\x00\x01", 6),
                               std::string(5, '\0'),
                               std::string("\xff\xff\xff\xff\x00", 5) + std::string(1000, 'x'),
                               std::string("\x02\x00\x00\x00\x00{}", 7),
                               std::string("\x01\x00\x00\x00\x07[", 6)};
  for (const std::string& text : texts) {
    strangers.push_back(connect_to(door.port()));
    say_raw(strangers.back(), text);
  }
  connect_to(door.port()).close();  // comes and leaves

  TcpConnection rank = connect_to(door.port());
  const Greeting greeting = greeting_of(1, 2, "job");
  ASSERT_TRUE(greet(rank, greeting));
  const auto start = std::chrono::steady_clock::now();
  std::optional<Visitor> visitor = door.next(seconds(60));
  ASSERT_TRUE(visitor);
  EXPECT_EQ(visitor->greeting.rank, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5)) << "a silent connection is given 10 s";
  const TcpConnection inside = door.let_in(std::move(*visitor), "come in");
  const DoorAnswer answer = wait_for_answer(rank, greeting, seconds(60));
  EXPECT_EQ(answer.kind, DoorAnswer::Kind::welcome);
  EXPECT_EQ(answer.text, "come in");
  EXPECT_GE(door.strangers(), std::ssize(texts));
}

TEST(DoorTest, OtherJobsAreToldSo) {
  Door door(TcpListener(0, Reach::machine), secret_of("job 7.0"), 2);
  TcpConnection other = connect_to(door.port());
  const Greeting greeting = greeting_of(1, 2, "job 7.1");
  greet(other, greeting);
  EXPECT_FALSE(door.next(milliseconds(300)));
  EXPECT_EQ(wait_for_answer(other, greeting, seconds(60)).kind, DoorAnswer::Kind::other_job);
  EXPECT_EQ(door.strangers(), 1);

  TcpConnection newer = connect_to(door.port());
  Greeting of_tomorrow = greeting_of(1, 2, "job 7.0");
  of_tomorrow.protocol += 1;
  greet(newer, of_tomorrow);
  EXPECT_FALSE(door.next(milliseconds(300)));
  const DoorAnswer answer = wait_for_answer(newer, of_tomorrow, seconds(60));
  EXPECT_EQ(answer.kind, DoorAnswer::Kind::refused);
  EXPECT_TRUE(contains(answer.text, "same trireme"));
}

// A program that answers and does not know the secret is not rank 0.
TEST(DoorTest, AnAnswerNeedsTheSecret) {
  Door impostor(TcpListener(0, Reach::machine), secret_of("other"), 2);
  TcpConnection rank = connect_to(impostor.port());
  Greeting said = greeting_of(1, 2, "other");
  ASSERT_TRUE(greet(rank, said));
  const TcpConnection inside = impostor.let_in(std::move(impostor.next(seconds(60)).value()));
  EXPECT_EQ(wait_for_answer(rank, greeting_of(1, 2, "job"), seconds(60)).kind, DoorAnswer::Kind::silence);
}

// ---------------------------------------------------------------------------------------------------------- the meeting

class MeetingTest : public testing::Test {
 protected:
  // How a rank's meeting ended: the number of ranks that it met, or what was thrown.
  struct Ending {
    int size = 0;
    int status = 0;  // 2: a UserError or told by rank 0 that there is one
    std::string line;
    bool is_said = false;
  };

  Rendezvous where(int rank, int size, const std::string& job = "job") const {
    return {.rank = rank, .size = size, .address = kHere, .ports = ports_, .job = job, .reach = Reach::machine};
  }

  Ending meet_as(const Rendezvous& where, MeetingTerms terms = {}) {
    terms.notice = [this, rank = where.rank](const std::string& line) {
      const std::lock_guard lock(mutex_);
      notices_[rank].push_back(line);
    };
    try {
      return {.size = meet(where, {.place = {}, .addresses = {}}, terms).size()};
    } catch (const JobEnded& ended) {
      return {.status = ended.end.status, .line = ended.end.line, .is_said = ended.end.is_said};
    } catch (const UserError& error) {
      return {.status = 2, .line = error.what()};
    } catch (const std::exception& error) {
      return {.status = 1, .line = error.what()};
    }
  }

  // Calls run(rank) on a thread per rank.
  template <class Run>
  static std::vector<Ending> on_threads(int size, const Run& run) {
    std::vector<Ending> endings(static_cast<size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { endings[static_cast<size_t>(rank)] = run(rank); });
    for (std::thread& thread : threads) thread.join();
    return endings;
  }

  std::vector<int> ports_ = {TcpListener(0, Reach::machine).port()};  // free a moment ago
  std::mutex mutex_;
  std::map<int, std::vector<std::string>> notices_;  // by rank
};

using MeetingSlow = MeetingTest;

TEST_F(MeetingTest, AllKnowAll) {
  const auto endings = on_threads(5, [&](int rank) {
    const Company company = meet(where(rank, 5), {.place = {}, .addresses = {"a"}, .port = 100 + rank}, {});
    for (int other = 0; other < 5; ++other) {
      EXPECT_EQ(company.ranks[static_cast<size_t>(other)].port, 100 + other);
      EXPECT_EQ(company.connections[static_cast<size_t>(other)].is_open(), rank != other && (rank == 0 || other == 0));
    }
    return Ending{.size = company.size(), .line = company.secret};
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.line, endings[0].line);
}

// Six jobs that want the same ports on one machine: each finds its own ranks.
TEST_F(MeetingSlow, JobsAtTheSamePortsDoNotMix) {
  constexpr int kJobs = 6, kRanks = 3;
  const TcpListener silent(0, Reach::machine);  // a program that never answers, whom all wait for once
  ports_ = {silent.port()};
  for (int i = 0; i < kJobs; ++i) ports_.push_back(TcpListener(0, Reach::machine).port());
  const auto endings = on_threads(kJobs * kRanks, [&](int i) {
    const std::string job = std::to_string(i % kJobs);
    return meet_as(where(i / kJobs, kRanks, job), {.facts = {{"model.seed", job}}, .notice = {}});
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.size, kRanks) << ending.line;
}

TEST_F(MeetingSlow, WhoWaitsSaysForWhom) {
  const auto endings = on_threads(4, [&](int rank) {
    if (rank == 1) return Ending{};
    if (rank == 3) std::this_thread::sleep_for(seconds(3));
    return meet_as(where(rank, 4), {.timeout = seconds(rank == 2 ? 60 : 5), .facts = {}, .notice = {}});
  });
  EXPECT_TRUE(contains(endings[0].line, "s for rank 1 of 4; rank 0 listens at ")) << endings[0].line;
  EXPECT_TRUE(contains(endings[0].line, "trainer.rank_timeout=5"));
  for (const int rank : {2, 3}) {
    EXPECT_EQ(endings[static_cast<size_t>(rank)].line, endings[0].line);
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].is_said) << "rank 0 prints it";
    EXPECT_EQ(endings[static_cast<size_t>(rank)].status, 1);
  }
  ASSERT_EQ(notices_[0].size(), 1u);
  EXPECT_TRUE(contains(notices_[0][0], "waiting for ranks 1,3 of 4; rank 0 listens at ")) << notices_[0][0];
}

TEST_F(MeetingSlow, WithoutRank0ItIsNamed) {
  const Ending ending = meet_as(where(1, 2), {.timeout = seconds(3), .facts = {}, .notice = {}});
  EXPECT_EQ(ending.status, 1);
  EXPECT_TRUE(contains(ending.line, fmt::format("s for rank 0 at 127.0.0.1, port {}: no process answers", ports_[0])))
      << ending.line;
  ASSERT_EQ(notices_[1].size(), 1u);
  EXPECT_TRUE(contains(notices_[1][0], "rank 1 is waiting for rank 0 at 127.0.0.1, port ")) << notices_[1][0];
}

TEST_F(MeetingTest, NamesWithoutAnAddressAreTold) {
  Rendezvous nowhere = where(1, 2);
  nowhere.address = std::string(300, 'x');  // too long for one, so that no server is asked for it
  const Ending ending = meet_as(nowhere, {.timeout = seconds(0), .facts = {}, .notice = {}});
  EXPECT_TRUE(contains(ending.line, "xxx has no address here (")) << ending.line;
}

TEST_F(MeetingTest, StrangersDoNotEndIt) {
  const auto endings = on_threads(3, [&](int i) {
    if (i != 2) {
      if (i == 1) std::this_thread::sleep_for(seconds(1));
      return meet_as(where(i, 2), {.timeout = seconds(60), .facts = {}, .notice = {}});
    }
    std::this_thread::sleep_for(milliseconds(300));
    std::vector<TcpConnection> open;
    for (int round = 0; round < 20; ++round) {
      open.push_back(connect_to(ports_[0]));
      if (round % 2 == 0) say_raw(open.back(), "SSH-2.0-scanner\r\n");
      if (round % 3 == 0) open.back().close();
    }
    std::this_thread::sleep_for(seconds(1));
    return Ending{};
  });
  for (const int rank : {0, 1}) EXPECT_EQ(endings[static_cast<size_t>(rank)].size, 2) << endings[static_cast<size_t>(rank)].line;
}

TEST_F(MeetingTest, WhoeverHasTheWrongNumbersIsSentAway) {
  std::latch refused(2);  // rank 2 completes the world, so it waits until both have been sent away
  const auto endings = on_threads(4, [&](int i) {
    if (i == 0) return meet_as(where(0, 3), {.timeout = seconds(60), .facts = {}, .notice = {}});
    if (i == 1) return meet_as(where(1, 3), {.timeout = seconds(60), .facts = {}, .notice = {}});
    std::this_thread::sleep_for(seconds(1));
    if (i == 2) {
      const Ending twice = meet_as(where(1, 3));
      EXPECT_EQ(twice.status, 2);
      EXPECT_TRUE(contains(twice.line, "does not take this process as rank 1 of 3: rank 1 (")) << twice.line;
      EXPECT_TRUE(contains(twice.line, "is here already")) << twice.line;
      refused.arrive_and_wait();
      return meet_as(where(2, 3));
    }
    const Ending larger = meet_as(where(3, 4));
    EXPECT_EQ(larger.status, 2);
    EXPECT_TRUE(contains(larger.line, "it was told that there are 4 ranks, and rank 0 that there are 3")) << larger.line;
    refused.count_down();
    return larger;
  });
  for (const size_t rank : {0, 1, 2}) EXPECT_EQ(endings[rank].size, 3) << endings[rank].line;
}

TEST_F(MeetingTest, ADifferenceIsNamedWithBothValues) {
  const SharedFacts facts = {{"model.optim.lr", "0.001"}, {"model.seed", "1234"}, {"trainer.max_steps", "10"}};
  for (const int size : {2, 3}) {  // rank 2 never comes: the difference is told before
    const auto endings = on_threads(2, [&](int rank) {
      MeetingTerms terms{.facts = facts, .notice = {}};
      if (rank == 1) terms.facts[1].second = "5";
      return meet_as(where(rank, size), terms);
    });
    EXPECT_EQ(endings[0].status, 2);
    EXPECT_TRUE(contains(endings[0].line, "rank 1 (")) << endings[0].line;
    EXPECT_TRUE(contains(endings[0].line, "differs from rank 0: model.seed=5 (rank 0: 1234);")) << endings[0].line;
    EXPECT_EQ(endings[1].line, endings[0].line);
    EXPECT_EQ(endings[1].status, 2);
  }
}

// A request that could not be read has no facts; the mistake in it is told later.
TEST_F(MeetingTest, UnknownFactsAreNotCompared) {
  const auto endings = on_threads(2, [&](int rank) {
    return meet_as(where(rank, 2), {.facts = rank == 0 ? SharedFacts{{"a", "b"}} : SharedFacts{}, .notice = {}});
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.size, 2) << ending.line;
}

TEST_F(MeetingTest, DifferencesAreCounted) {
  EXPECT_EQ(difference_of({{"a", "1"}}, {{"a", "1"}}), "");
  EXPECT_EQ(difference_of({{"a", "1"}, {"b", "2"}}, {{"a", "1"}}), "b=not set (rank 0: 2)");
  EXPECT_EQ(difference_of({}, {{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}, {"e", "1"}}),
            "a=1 (rank 0: not set), b=1 (rank 0: not set), c=1 (rank 0: not set), and 2 more differ");
}

// A rank that is killed while others are still to come ends the job for those that are there, in seconds.
TEST_F(MeetingSlow, AKillWhileRanksMeetEndsTheOthers) {
  for (const int victim : {0, 1}) {
    const pid_t child = ::fork();
    if (child == 0) {
      meet_as(where(victim, 3));
      ::_exit(0);
    }
    std::thread killer([child] {
      std::this_thread::sleep_for(seconds(1));
      ::kill(child, SIGKILL);
    });
    const Ending ending = meet_as(where(1 - victim, 3));
    killer.join();
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(ending.status, 1);
    const std::string part = victim == 1 ? fmt::format("process {}) died before all ranks had met", child)
                                         : "rank 1 lost the connection to rank 0 at 127.0.0.1";
    EXPECT_TRUE(contains(ending.line, part)) << ending.line;
  }
}

TEST_F(MeetingTest, APortThatIsTakenIsTold) {
  const TcpListener other(ports_[0], Reach::machine);
  const Ending ending = meet_as(where(0, 2));
  EXPECT_EQ(ending.status, 2);
  EXPECT_TRUE(contains(ending.line, fmt::format("cannot listen on TCP port {}", ports_[0]))) << ending.line;
  EXPECT_TRUE(contains(ending.line, "MASTER_PORT"));
}

}  // namespace
}  // namespace trireme
