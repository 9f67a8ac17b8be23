#include "config/tree.h"

#include <gtest/gtest.h>

#include "config/user_error.h"
#include "config/yaml.h"

namespace trireme {
namespace {

Tree sample() { return read_yaml("a:\n  b: 1\n  c: [x, {d: 2}]\ne: null\n", "sample.yaml"); }

TEST(Tree, FindsByDottedPath) {
  const Tree tree = sample();
  ASSERT_NE(tree.find("a.b"), nullptr);
  EXPECT_EQ(tree.find("a.b")->integer(), 1);
  EXPECT_EQ(tree.find("a.c.0")->string(), "x");
  EXPECT_EQ(tree.find("a.c.1.d")->integer(), 2);
  EXPECT_TRUE(tree.find("e")->is_null());
  for (const char* absent : {"f", "a.f", "a.b.c", "a.c.2", "a.c.x", "a.c.-1", "e.f", ""})
    EXPECT_EQ(tree.find(absent), nullptr) << absent;
}

TEST(Tree, SetMakesTheMapsOnTheWay) {
  Tree tree = sample();
  tree.set("a.b", Tree(int64_t{5}));
  tree.set("a.new.deep", Tree(true));
  tree.set("e.f", Tree(int64_t{6}));
  EXPECT_EQ(tree.text(), "{a:{b:5,c:[x,{d:2}],new:{deep:true}},e:{f:6}}");
  EXPECT_EQ(user_error_of([&] { tree.set("a.b.z", Tree(true)); }), "5 is a single value, so z cannot be set below it");
}

TEST(Tree, RemovesOnlyWhatIsThere) {
  Tree tree = sample();
  EXPECT_TRUE(tree.remove("a.b"));
  EXPECT_FALSE(tree.remove("a.b"));
  EXPECT_FALSE(tree.remove("a.c.0"));
  EXPECT_EQ(tree.text(), "{a:{c:[x,{d:2}]},e:null}");
}

TEST(Tree, MergeJoinsMapsAndReplacesTheRest) {
  Tree tree = sample();
  tree.merge(read_yaml("a: {c: [y], g: 3}\ne: {f: 1}\nh: 4\n", "over.yaml"));
  EXPECT_EQ(tree.text(), "{a:{b:1,c:[y],g:3},e:{f:1},h:4}");
}

TEST(Tree, IsBriefInMessages) {
  EXPECT_EQ(sample().brief(), sample().text());
  EXPECT_EQ(Tree(std::string("a\nb")).brief(), "a b");
  EXPECT_EQ(Tree(std::string(101, 'x')).brief(), std::string(97, 'x') + "...");
}

TEST(Tree, RemembersWhereValuesWereWritten) {
  const Tree tree = sample();
  EXPECT_EQ(tree.find("a.b")->where(), "sample.yaml:2");
  EXPECT_EQ(tree.find("a.c.1.d")->where(), "sample.yaml:3");
  EXPECT_EQ(tree.find("e")->where_suffix(), " (sample.yaml:4)");
  EXPECT_EQ(Tree(true).where_suffix(), "");
}

}  // namespace
}  // namespace trireme
