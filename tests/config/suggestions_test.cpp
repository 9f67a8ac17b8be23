#include "config/suggestions.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(EditDistance, CountsInsertionsRemovalsReplacementsAndSwaps) {
  struct Case {
    const char *a, *b;
    int64_t distance;
  };
  const Case cases[] = {{"", "", 0},       {"abc", "abc", 0}, {"", "abc", 3},     {"abc", "", 3},          {"abc", "abd", 1},
                        {"abc", "acb", 1}, {"abc", "ab", 1},  {"abcd", "bcd", 1}, {"kitten", "sitting", 3}};
  for (const Case& c : cases) {
    EXPECT_EQ(edit_distance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(edit_distance(c.b, c.a), c.distance) << c.b << " " << c.a;
  }
}

TEST(Nearest, FindsSlipsAndMisplacedKeysOnly) {
  const std::vector<std::string> keys = {"trainer.max_steps", "trainer.max_time", "model.optim.lr", "model.num_layers"};
  EXPECT_EQ(nearest("trainer.max_step", keys), "trainer.max_steps");
  EXPECT_EQ(nearest("trainer.max_tiem", keys), "trainer.max_time");
  EXPECT_EQ(nearest("model.lr", keys), "model.optim.lr");
  EXPECT_EQ(nearest("num_layers", keys), "model.num_layers");
  EXPECT_EQ(nearest("something.entirely.different", keys), "");
  EXPECT_EQ(nearest(std::string(100'000, 'x'), keys), "");
  EXPECT_EQ(did_you_mean("model.lr", keys), "; did you mean model.optim.lr?");
  EXPECT_EQ(did_you_mean("zzzzzzzz", keys), "");
}

}  // namespace
}  // namespace trireme
