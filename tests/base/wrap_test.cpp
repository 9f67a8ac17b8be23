#include "base/wrap.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Wrap, ShortLinesStayAsTheyAre) {
  EXPECT_EQ(wrapped("", 20, 4), "");
  EXPECT_EQ(wrapped("one\n\n  two\n", 20, 4), "one\n\n  two\n");
  EXPECT_EQ(wrapped("exactly twenty chars", 20, 4), "exactly twenty chars");
}

TEST(Wrap, BreaksAtSpacesAndIndentsTheRest) {
  EXPECT_EQ(wrapped("run     a line that is far too long", 20, 8), "run     a line that\n        is far too\n        long");
}

TEST(Wrap, PrefersTheGapBetweenFields) {
  EXPECT_EQ(wrapped("memory  weights 3 MiB  states 12 MiB  rest", 34, 8), "memory  weights 3 MiB\n        states 12 MiB  rest");
}

TEST(Wrap, NeverBreaksAWord) {
  EXPECT_EQ(wrapped("run     /a/path/that/is/longer/than/the/line and more", 20, 8),
            "run     /a/path/that/is/longer/than/the/line\n        and more");
  EXPECT_EQ(wrapped("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 10, 4), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

}  // namespace
}  // namespace trireme
