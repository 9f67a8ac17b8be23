#include "config/interpolation.h"

#include <gtest/gtest.h>

#include "config/user_error.h"
#include "config/yaml.h"

namespace trireme {
namespace {

struct Case {
  std::string text;
  std::string expected;
};

TEST(Interpolation, ReplacesReferences) {
  const Case cases[] = {
      {"a: 3\nb: ${a}\n", "{a:3,b:3}"},
      {"b: ${a}\na: 3\n", "{b:3,a:3}"},
      {"a: {x: 1, y: '${.x}', z: {w: '${..x}'}}\n", "{a:{x:1,y:1,z:{w:1}}}"},
      {"x: 9\na: {b: {c: '${...x}'}}\n", "{x:9,a:{b:{c:9}}}"},
      {"x: '${.y}'\ny: 2\n", "{x:2,y:2}"},
      {"a: {b: [1, 2]}\nc: ${a}\n", "{a:{b:[1,2]},c:{b:[1,2]}}"},
      {"a: [5, '${b}']\nb: 6\nc: ${a.1}\n", "{a:[5,6],b:6,c:6}"},
      {"a: ${b}\nb: ${c}\nc: {d: 1}\ne: ${a.d}\n", "{a:{d:1},b:{d:1},c:{d:1},e:1}"},
      {"dir: /data\nfile: ${dir}/my_${n}.bin\nn: 3\n", "{dir:/data,file:/data/my_3.bin,n:3}"},
      {"kind: small\nsizes: {small: 1, large: 2}\nx: '${sizes.${kind}}'\n", "{kind:small,sizes:{small:1,large:2},x:1}"},
      {"a: ${multiply:4, ${.b}}\nb: 3\n", "{a:12,b:3}"},
      {"a: ${multiply:0.5,3}\n", "{a:1.5}"},
      {"a: ${multiply:${multiply:2,3},${divide_floor:${b},2}}\nb: 5\n", "{a:12,b:5}"},
      {"a: ${divide_ceil:7,2}\nb: ${divide_floor:7,2}\nc: ${divide_ceil:-7,2}\nd: ${divide_floor:-7,2}\n", "{a:4,b:3,c:-3,d:-4}"},
      {"a: ${divide_ceil:6,3}\nb: ${divide_floor:7.5,2}\n", "{a:2,b:3}"},
      {"a: ${sum:${.b},-1}\nb: 96\nc: ${sum:0.5,1}\n", "{a:95,b:96,c:1.5}"},
      {"a: ${oc.env:TRIREME_NOT_SET,125}\nb: ${oc.env:TRIREME_NOT_SET,${c}/x}\nc: y\n", "{a:125,b:y/x,c:y}"},
      // recipes of the launcher stand under `training` and say so even when they are used alone
      {"x: 1\ny: ${training.x}\n", "{x:1,y:1}"},
      {"training: {x: 1}\nx: 2\ny: ${training.x}\n", "{training:{x:1},x:2,y:1}"},
      {"a: $5 {b} $\n", "{a:$5 {b} $}"},
      {"a: ???\n", "{a:???}"},
  };
  for (const Case& c : cases) {
    Tree tree = read_yaml(c.text, "i.yaml");
    resolve_interpolations(tree);
    EXPECT_EQ(tree.text(), c.expected) << c.text;
  }
}

// Each value is what OmegaConf 2.3 makes of the same text.
TEST(Interpolation, AgreesWithOmegaConf) {
  setenv("TRIREME_TEST_VARIABLE", "true", 1);
  const std::string before = "n: null\nb: true\nf: 1e-4\ni: 5\ns: txt\nl: [7, 8, {k: 9}]\nm: {x: 1, y: null}\n";
  const struct {
    const char *text, *expected;
    Tree::Kind kind;
  } cases[] = {
      {"_ckpt${n}_", "_ckptNone_", Tree::Kind::string},
      {"a ${b} ${n} ${f}", "a True None 0.0001", Tree::Kind::string},
      {"a${l}", "a[7, 8, {'k': 9}]", Tree::Kind::string},
      {"a${m}", "a{'x': 1, 'y': None}", Tree::Kind::string},
      {"\\${n}", "${n}", Tree::Kind::string},
      {"a\\${n}${i}", "a${n}5", Tree::Kind::string},
      {"\\\\${i}", "\\5", Tree::Kind::string},
      {"\\\\\\${i}", "\\${i}", Tree::Kind::string},
      {"x\\y", "x\\y", Tree::Kind::string},
      {"${l[0]}", "7", Tree::Kind::integer},
      {"${l[2].k}", "9", Tree::Kind::integer},
      {"${l[2][k]}", "9", Tree::Kind::integer},
      {"${m[x]}", "1", Tree::Kind::integer},
      {"${.l[1]}", "8", Tree::Kind::integer},
      {"${oc.select:nope,3}", "3", Tree::Kind::integer},
      {"${oc.select:i,3}", "5", Tree::Kind::integer},
      {"${oc.select:.i}", "5", Tree::Kind::integer},
      {"${oc.select:m.y,3}", "null", Tree::Kind::null},
      {"${oc.select:nope}", "null", Tree::Kind::null},
      {"${oc.select:m.q.z,abc}", "abc", Tree::Kind::string},
      {"${oc.select:nope,${m.x}}", "1", Tree::Kind::integer},
      {"${oc.decode:\"10\"}", "10", Tree::Kind::integer},
      {"${oc.decode:\"[1,2]\"}", "[1,2]", Tree::Kind::list},
      {"${oc.decode:\"a b\"}", "a b", Tree::Kind::string},
      {"${oc.decode:\"${i}\"}", "5", Tree::Kind::integer},
      {"${oc.decode:null}", "null", Tree::Kind::null},
      {"${oc.decode:${oc.env:TRIREME_TEST_VARIABLE}}", "true", Tree::Kind::boolean},
      {"a${oc.env:TRIREME_TEST_VARIABLE}", "atrue", Tree::Kind::string},
      {"${oc.env:TRIREME_NOT_SET,\"a, b\"}", "a, b", Tree::Kind::string},
      {"${oc.env:TRIREME_NOT_SET,null}", "null", Tree::Kind::null},
  };
  for (const auto& c : cases) {
    // Once as it is, and once through another value, which must not take ${ for a reference again.
    Tree tree = read_yaml(before + "r: '" + c.text + "'\nt: ${r}\nu: {v: '${r}'}\nw: ${u.v}\n", "i.yaml");
    resolve_interpolations(tree);
    for (const char* key : {"r", "t", "w"}) {
      EXPECT_EQ(tree.find(key)->text(), c.expected) << c.text;
      EXPECT_EQ(tree.find(key)->kind(), c.kind) << c.text;
    }
  }
  unsetenv("TRIREME_TEST_VARIABLE");
}

TEST(Interpolation, KeepsTheKindAndPlace) {
  Tree tree = read_yaml("a: 3\nb: ${a}\nc: x${a}\n", "i.yaml");
  resolve_interpolations(tree);
  EXPECT_EQ(tree.find("b")->kind(), Tree::Kind::integer);
  EXPECT_EQ(tree.find("b")->where(), "i.yaml:2");
  EXPECT_EQ(tree.find("c")->kind(), Tree::Kind::string);
}

TEST(Interpolation, Mistakes) {
  const Case cases[] = {
      {"a: ${b}\n", "a=${b}: the recipe has no b (i.yaml:1)"},
      {"a: {x: '${.b}'}\nb: 1\n", "a.x=${.b}: the recipe has no a.b (i.yaml:1)"},
      {"a: '${..b}'\n", "a=${..b}: ..b points above the top of the recipe (i.yaml:1)"},
      {"a: ${a}\n", "a refers to itself: a -> a (i.yaml:1)"},
      {"a: ${b}\nb: ${c}\nc: ${a}\n", "a refers to itself: a -> b -> c -> a (i.yaml:1)"},
      {"a: {b: '${a}'}\n", "a.b refers to itself: a.b -> a.b (i.yaml:1)"},
      {"a: '${b'\nb: 1\n", "a=${b: the closing } of ${ is missing (i.yaml:1)"},
      {"a: ${}\n", "a=${}: a reference must name a key (i.yaml:1)"},
      {"a: ${..}\n", "a=${..}: a reference must name a key (i.yaml:1)"},
      {"a: ${b}\nb: ???\n", "b: must be given, because a refers to it (i.yaml:2)"},
      {"a: ${power:2,3}\n",
       "a=${power:2,3}: there is no power; use multiply, sum, divide_ceil, divide_floor, oc.env, oc.select, oc.decode, beside or "
       "hydra (i.yaml:1)"},
      {"a: ${multiply:2}\n", "a=${multiply:2}: multiply needs two numbers, not 1 (i.yaml:1)"},
      {"a: ${multiply:2,x}\n", "a=${multiply:2,x}: multiply needs numbers, not 'x' (i.yaml:1)"},
      {"a: ${divide_floor:2,0}\n", "a=${divide_floor:2,0}: divide_floor of 2 and 0 is not a number (i.yaml:1)"},
      {"a: ${divide_ceil:2.0,0.0}\n", "a=${divide_ceil:2.0,0.0}: divide_ceil of 2.0 and 0.0 is not a number (i.yaml:1)"},
      {"a: ${oc.env:TRIREME_NOT_SET}\n",
       "a=${oc.env:TRIREME_NOT_SET}: the environment variable TRIREME_NOT_SET is not set; set it or give a=VALUE (i.yaml:1)"},
      {"a: ${hydra:runtime.cwd}\n", "a=${hydra:runtime.cwd}: of hydra: there is only runtime.choices.GROUP (i.yaml:1)"},
      {"a: ${hydra:runtime.choices.g}\n", "a=${hydra:runtime.choices.g}: the defaults list has no g (i.yaml:1)"},
      {"a: ${data_dir}/x\n", "a=${data_dir}/x: data_dir must be given; add for example data_dir=/path/to/it (i.yaml:1)"},
      {"a: ${multiply:9223372036854775807,2}\n",
       "a=${multiply:9223372036854775807,2}: multiply of 9223372036854775807 and 2 is not a number (i.yaml:1)"},
  };
  for (const Case& c : cases) {
    Tree tree = read_yaml(c.text, "i.yaml");
    EXPECT_EQ(user_error_of([&] { resolve_interpolations(tree); }), c.expected) << c.text;
  }
}

TEST(Interpolation, EnvironmentAndChoices) {
  setenv("TRIREME_TEST_NUMBER", "5", 1);
  InterpolationContext context;
  context.choice = [](const std::string& group) { return group == "training" ? "gpt3/5b" : ""; };
  Tree tree = read_yaml("a: ${oc.env:TRIREME_TEST_NUMBER,3}\nb: ${hydra:runtime.choices.training}\n", "i.yaml");
  resolve_interpolations(tree, context);
  unsetenv("TRIREME_TEST_NUMBER");
  EXPECT_EQ(tree.find("a")->integer(), 5);
  EXPECT_EQ(tree.find("b")->string(), "gpt3/5b");
}

TEST(Interpolation, PathsBesideTheFileThatSaysThem) {
  Tree tree = read_yaml("a: '${beside:texts/a.txt}'\nb: '${beside: ../c}'\n", "folder/i.yaml");
  resolve_interpolations(tree);
  EXPECT_EQ(tree.text(), "{a:folder/texts/a.txt,b:c}");
  tree = read_yaml("a: '${beside:x}'\n", "i.yaml");
  tree.find("a")->origin = {};  // as of an override
  EXPECT_EQ(user_error_of([&] { resolve_interpolations(tree); }),
            "a=${beside:x}: beside: there is no file to be beside; give the path itself");
}

TEST(Interpolation, WhatNobodyReadsMayReferToNothing) {
  InterpolationContext context;
  context.may_dangle = [](const std::string& key) { return key == "run.folder"; };
  Tree tree = read_yaml("run: {folder: '${nowhere}/x', name: '${n}'}\nn: 1\n", "i.yaml");
  resolve_interpolations(tree, context);
  EXPECT_EQ(tree.text(), "{run:{folder:${nowhere}/x,name:1},n:1}");
  tree = read_yaml("run: {folder: '${nowhere}', name: '${.folder}'}\n", "i.yaml");
  EXPECT_EQ(user_error_of([&] { resolve_interpolations(tree, context); }),
            "run.folder=${nowhere}: the recipe has no nowhere (i.yaml:1)");
}

TEST(Interpolation, CannotExplode) {
  std::string doubling = "a0: xxxxxxxxxx\n", chain = "b0: 1\n";
  for (int i = 1; i < 60; ++i) doubling += fmt::format("a{0}: ${{a{1}}}${{a{1}}}\n", i, i - 1);
  for (int i = 1; i < 5000; ++i) chain += fmt::format("b{}: ${{b{}}}\n", i, i + 1);
  Tree tree = read_yaml(doubling, "i.yaml");
  EXPECT_NE(user_error_of([&] { resolve_interpolations(tree); }).find("expand to more than a recipe can be"), std::string::npos);
  tree = read_yaml(chain, "i.yaml");
  EXPECT_NE(user_error_of([&] { resolve_interpolations(tree); }).find("more than 100 references in a row"), std::string::npos);
}

}  // namespace
}  // namespace trireme
