// The line about the rungs of a recovery.
#include "launch/recovery.h"

#include <gtest/gtest.h>

#include <csignal>

namespace trireme {
namespace {

using std::chrono::milliseconds;

class RecoveryTest : public testing::Test {
 protected:
  Recovery::Time at(int count) const { return start_ + milliseconds(count); }
  Recovery::Time start_;
  Recovery recovery_;
};

TEST_F(RecoveryTest, SaysWhenEachRungWasReached) {
  recovery_.notice(at(0));
  recovery_.notice(at(200));
  recovery_.leave(at(310));
  recovery_.restart("on this machine", at(350));
  EXPECT_EQ(recovery_.first_step(at(1920)),
            "recovered on this machine in 1.92 s: the ranks had left after 0.31 s, were started again after 0.35 s, first step "
            "after 1.92 s");
}

TEST_F(RecoveryTest, NamesTheLastSignalAndCountsRestarts) {
  recovery_.notice(at(0));
  recovery_.signal(SIGTERM, at(4000));
  recovery_.signal(SIGKILL, at(8000));
  recovery_.leave(at(8010));
  recovery_.restart("on this machine", at(8020));
  recovery_.notice(at(8500));
  recovery_.leave(at(8600));
  recovery_.restart("on spare n3", at(8700));
  EXPECT_EQ(recovery_.first_step(at(9000)),
            "recovered on spare n3 in 9.00 s with 2 restarts: the ranks got SIGKILL after 8.00 s, had left after 8.60 s, were "
            "started again after 8.70 s, first step after 9.00 s");
}

TEST_F(RecoveryTest, IsSilentUnlessSomethingFailed) {
  recovery_.signal(SIGTERM, at(0));
  recovery_.leave(at(0));
  recovery_.restart("on this machine", at(0));
  EXPECT_EQ(recovery_.first_step(at(1)), "");
  recovery_.notice(at(2));
  EXPECT_EQ(recovery_.first_step(at(3)), "") << "the attempt has not ended";
}

}  // namespace
}  // namespace trireme
