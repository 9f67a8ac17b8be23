#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <vector>

namespace trireme {
namespace {

// The calling thread, and threads that it starts, on one core while this lives.
class OnOneCore {
 public:
  OnOneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What a process with `threads` threads burns for 1000 ops of 4 tasks of about 10 microseconds.
double burnt_by(int threads) {
  ThreadPool pool(threads);
  std::atomic<uint64_t> sink{0};
  const double begin = cpu_seconds();
  for (int op = 0; op < 1000; ++op)
    pool.run(4, [&](int64_t i) {
      auto x = static_cast<uint64_t>(i);
      for (int turn = 0; turn < 10'000; ++turn) x = x * 6364136223846793005u + 1442695040888963407u;
      sink += x;
    });
  return cpu_seconds() - begin;
}

TEST(ThreadPool, RunsEveryTaskOnceWhateverTheNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count = 0; count < 300; ++count) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      pool.run_on_threads(count, [&](int64_t i, int thread) {
        EXPECT_LT(thread, pool.size());
        runs[static_cast<size_t>(i)] += 1;
      });
      ASSERT_TRUE(std::ranges::all_of(runs, [](const auto& times) { return times == 1; })) << threads << " threads, " << count;
    }
  }
}

TEST(ThreadPool, HandsOnAnErrorAndGoesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.run(20,
                          [&](int64_t i) {
                            if (i == 7) throw std::runtime_error("task 7");
                          }),
                 std::runtime_error);
    std::atomic<int64_t> sum{0};
    pool.run(20, [&](int64_t i) { sum += i; });
    EXPECT_EQ(sum, 190);
  }
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than workers spin
    std::atomic<int64_t> sum{0};
    pool.run(2, [&](int64_t i) { sum += i + 1; });
    EXPECT_EQ(sum, 3);
  }
}

// Four threads on one core. A thread that spins for another keeps it off the core for a whole time slice, milliseconds per op.
// CPU time, because other programs on this machine do not add to it. One thread burns 0.055 s, four that sleep 0.058 s, four that
// spin 1.8 s; half as much again is what a pool may cost in the worst case.
TEST(ThreadPool, BurnsLittleWhereThreadsShareACore) {
  const OnOneCore pinned;
  double alone = burnt_by(1), shared = burnt_by(4);
  for (int round = 0; round < 2; ++round) {
    alone = std::min(alone, burnt_by(1));
    shared = std::min(shared, burnt_by(4));
  }
  EXPECT_LT(shared, 1.5 * alone) << alone << " s with one thread";
}

}  // namespace
}  // namespace trireme
