// More threads than the system gives: a line for the user, not an aborted program.
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "base/start_threads.h"
#include "base/thread_pool.h"
#include "support/few_threads.h"
#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(ThreadLimitTest, ThreadsThatCannotBeHadAreTold) {
  EXPECT_TRUE(passes_with_few_threads([] {
    const std::string line = message_of<UserError>([] { ThreadPool pool(1000); });
    EXPECT_TRUE(contains(line, "this machine does not give 1000 threads"));
  }));
}

TEST(ThreadLimitTest, ThreadsThatWereStartedAreStoppedAndJoined) {
  EXPECT_TRUE(passes_with_few_threads([] {
    std::atomic<int64_t> started = 0, ended = 0;
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    const auto work = [&](int64_t) {
      ++started;
      stop.wait(false);
      ++ended;
    };
    const std::string line = message_of<Failure>([&] {
      start_threads(threads, 1000, work, [&] {
        stop = true;
        stop.notify_all();
      });
    });
    EXPECT_TRUE(contains(line, "the system gives no more threads (")) << line;
    EXPECT_TRUE(threads.empty());
    EXPECT_GT(started, 0);
    EXPECT_EQ(ended, started);
  }));
}

}  // namespace
}  // namespace trireme
