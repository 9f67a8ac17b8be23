// What users are told of exceptions of every kind.
#include "base/error.h"

#include <gtest/gtest.h>

#include "support/temporary_folder.h"

namespace trireme {
namespace {

TEST(ErrorTest, BugsAreToldAsBugs) {
  const std::string text = message_of<std::logic_error>([] { check_failed("/home/somebody/build/src/comm/x.cpp", 7, "a == b"); });
  EXPECT_EQ(text, "check failed: a == b (src/comm/x.cpp:7)");
  EXPECT_EQ(line_of(std::logic_error(text)),
            "this is a bug of trireme, please report it with the command and the recipe: " + text);
  EXPECT_TRUE(contains(line_of(std::length_error("vector::reserve")), "a bug of trireme"));
  EXPECT_EQ(line_of(UserError("a.b=c; use d")), "a.b=c; use d");
  EXPECT_EQ(line_of(Failure("the disk is full")), "the disk is full");
  EXPECT_EQ(line_of(std::bad_alloc()), "out of memory");
}

}  // namespace
}  // namespace trireme
