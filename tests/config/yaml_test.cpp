#include "config/yaml.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "config/user_error.h"

namespace trireme {
namespace {

// In a file, numbers that begin with 0 are what PyYAML takes them for.
TEST(Scalar, LeadingZerosInAFile) {
  const struct {
    const char *text, *written;
    Tree::Kind kind;
  } cases[] = {
      {"010", "8", Tree::Kind::integer},      {"-010", "-8", Tree::Kind::integer},    {"017", "15", Tree::Kind::integer},
      {"00", "0", Tree::Kind::integer},       {"08", "08", Tree::Kind::string},       {"09.5", "9.5", Tree::Kind::real},
      {"00.5", "0.5", Tree::Kind::real},      {"0", "0", Tree::Kind::integer},        {"0.5", "0.5", Tree::Kind::real},
      {"0123a", "0123a", Tree::Kind::string}, {"\"010\"", "010", Tree::Kind::string},
  };
  for (const auto& c : cases) {
    const Tree tree = read_yaml(fmt::format("a: {}\n", c.text), "y.yaml");
    EXPECT_EQ(tree.find("a")->text(), c.written) << c.text;
    EXPECT_EQ(tree.find("a")->kind(), c.kind) << c.text;
    EXPECT_EQ(read_yaml(write_yaml(tree), "z.yaml").text(), tree.text()) << c.text;
  }
}

TEST(Scalar, MeansWhatNemoUsersExpect) {
  using Kind = Tree::Kind;
  struct Case {
    const char* text;
    Kind kind;
    const char* written;
  };
  const Case cases[] = {
      {"", Kind::null, "null"},
      {"~", Kind::null, "null"},
      {"null", Kind::null, "null"},
      {"Null", Kind::null, "null"},
      {"true", Kind::boolean, "true"},
      {"True", Kind::boolean, "true"},
      {"off", Kind::boolean, "false"},
      {"False", Kind::boolean, "false"},
      {"tRue", Kind::string, "tRue"},
      {"0", Kind::integer, "0"},
      {"-12", Kind::integer, "-12"},
      {"+7", Kind::integer, "7"},
      {"1_000_000", Kind::integer, "1000000"},
      {"0x1F", Kind::integer, "31"},
      {"0o17", Kind::integer, "15"},
      {"9223372036854775807", Kind::integer, "9223372036854775807"},
      {"9223372036854775808", Kind::real, "9.223372036854776e+18"},
      {"1e-4", Kind::real, "0.0001"},
      {"6E+2", Kind::real, "600.0"},
      {"1.", Kind::real, "1.0"},
      {".5", Kind::real, "0.5"},
      {"-.inf", Kind::real, "-.inf"},
      {".nan", Kind::real, ".nan"},
      {"bf16", Kind::string, "bf16"},
      {"1e", Kind::string, "1e"},
      {"e5", Kind::string, "e5"},
      {".", Kind::string, "."},
      {"-", Kind::string, "-"},
      {"1_", Kind::string, "1_"},
      {"1.2.3", Kind::string, "1.2.3"},
      {"007", Kind::string, "007"},
      {"00:23:30:00", Kind::string, "00:23:30:00"},
      {"99990,8,2", Kind::string, "99990,8,2"},
      {"inf", Kind::string, "inf"},
      {"nan", Kind::string, "nan"},
      {"0x", Kind::string, "0x"},
      {"???", Kind::string, "???"},
  };
  for (const Case& c : cases) {
    const Tree value = scalar_from_text(c.text);
    EXPECT_EQ(value.kind(), c.kind) << c.text;
    EXPECT_EQ(value.text(), c.written) << c.text;
  }
}

TEST(Yaml, QuotedScalarsAreStrings) {
  const Tree tree = read_yaml("a: '32'\nb: \"null\"\nc: !!str 5\nd: 5\n", "q.yaml");
  EXPECT_EQ(tree.find("a")->string(), "32");
  EXPECT_EQ(tree.find("b")->string(), "null");
  EXPECT_EQ(tree.find("c")->string(), "5");
  EXPECT_EQ(tree.find("d")->integer(), 5);
  for (const char* closed : {"ü: 'it''s'", "ü: ''", "ü: \"\\\"\"", "\xEF\xBB\xBFü: 'x' # '", "- !!str 'x'"})
    EXPECT_EQ(user_error_of([&] { read_yaml(closed, "q.yaml"); }), "") << closed;
}

TEST(Yaml, KeepsTheOrderOfKeysAndRepeatsAnchors) {
  const Tree tree = read_yaml("z: &shared {b: 1, a: 2}\ny: *shared\n", "o.yaml");
  EXPECT_EQ(tree.text(), "{z:{b:1,a:2},y:{b:1,a:2}}");
}

TEST(Yaml, EmptyTextIsNull) {
  EXPECT_TRUE(read_yaml("", "e.yaml").is_null());
  EXPECT_TRUE(read_yaml("# only a comment\n", "e.yaml").is_null());
  EXPECT_TRUE(read_yaml("---\n", "e.yaml").is_null());
}

TEST(Yaml, WhatIsWrittenReadsBackTheSame) {
  const char* text =
      "text: 'a: b # c'\nlooks_like_number: '1e-4'\nempty: ''\ndash: '-x'\nquote: \"say \\\"hi\\\" \\\\ \\n\\t\"\nunicode: "
      "größe\n"
      "real: 3.0\nsmall: 1e-08\nhuge: .inf\nlist: [1, '2', null, true]\nnested: [[1], {a: [b]}, []]\nnothing: {}\n'true': 1\n"
      "reference: ${multiply:2,${.x}}\nlong: [1111111111111111111111111111111111111111111111x, "
      "22222222222222222222222222222222222222222222222x,"
      " 3333333333333333333333333333333x]\n";
  const Tree tree = read_yaml(text, "w.yaml");
  const std::string written = write_yaml(tree);
  const Tree again = read_yaml(written, "again.yaml");
  EXPECT_EQ(again.text(), tree.text());
  EXPECT_EQ(write_yaml(again), written);
  EXPECT_NE(written.find("\nlong:\n  - 1111"), std::string::npos);
  EXPECT_TRUE(again.find("looks_like_number")->is_string());
  EXPECT_TRUE(again.find("list.1")->is_string());
  EXPECT_EQ(again.find("quote")->string(), "say \"hi\" \\ \n\t");
}

TEST(Yaml, MistakesAreOneLineWithFileAndLine) {
  struct Case {
    std::string text;
    const char* message;
  };
  const Case cases[] = {
      {"a: 1\nb: 2\na: 3\n", "bad.yaml:3: the key a is given twice"},
      {"a.b: 1\na: {b: 2}\na.b: 3\n", "bad.yaml:3: the key a.b is given twice"},
      {"a: 1\n<<: {b: 2}\n", "bad.yaml:2: YAML merge keys (<<) are not supported; use extends: to build on another recipe"},
      {"a: 1\n---\nb: 2\n", "bad.yaml:2: a second document starts here; a recipe is one document"},
      {"a: !python/object x\n", "bad.yaml:1: the tag !python/object is not supported; remove it"},
      {"a: 1\nb: 'x\nc: 3\n", "bad.yaml:2: the closing quote is missing"},
      {"a: 1\nb: 'x''\nc: 3\n", "bad.yaml:2: the closing quote is missing"},
      {"ü: 1\nb: \"x\\\"\nc: 3\n", "bad.yaml:2: the closing quote is missing"},
      {"a: 1\n" + std::string(201, 'k') + ": 2\n",
       "bad.yaml:2: a key must be one word; is a quote or a bracket left open before it?"},
      {"a: &x [1, *x]\n", "bad.yaml:1: an alias stands inside the value it repeats"},
      {"a: 1\n? [b]\n: 2\n", "bad.yaml:2: a key must be a plain word, not a list or a map"},
      {"a: 1\n? ~\n: 2\n", "bad.yaml:2: a key is missing before ':'"},
      {std::string("a: 1\nb: \0\n", 9), "bad.yaml:2: not a text file (it contains the byte 0x00)"},
      {std::string(1 << 21, 'x'), "bad.yaml:1: larger than 1048576 bytes, too large for a recipe"},
      {std::string(65, '[') + std::string(65, ']'), "bad.yaml:1: more than 64 levels of nesting"},
      {"a: [" +
           [] {
             std::string many;
             for (int i = 0; i < 20'001; ++i) many += "1,";
             return many;
           }() +
           "]",
       "bad.yaml:1: more than 20000 values"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(user_error_of([&] { read_yaml(c.text, "bad.yaml"); }), c.message) << c.text.substr(0, 40);
  }
  // What the YAML library says about broken syntax is its own; the place is ours.
  for (const char* broken : {"a: 1\n  b: 2\n", "a: 1\nb: [1, 2\n", "a: 1\nb: *nowhere\n", "a: 1\nb: \"\\q\"\n", "a: 1\n\tb: 2\n",
                             "a: 1\nb 2\nc: 3\n"}) {
    const std::string message = user_error_of([&] { read_yaml(broken, "bad.yaml"); });
    EXPECT_TRUE(message.starts_with("bad.yaml:2: ") || message.starts_with("bad.yaml:3: ")) << broken << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << broken;
  }
}

TEST(Yaml, AliasesCannotExplode) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    text += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
  }
  EXPECT_TRUE(user_error_of([&] { read_yaml(text, "laughs.yaml"); }).ends_with(": more than 20000 values"));
}

TEST(Yaml, FilesThatAreNoRecipes) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "trireme_yaml_test";
  std::filesystem::create_directories(folder);
  EXPECT_EQ(user_error_of([&] { read_yaml_file(folder.string()); }), folder.string() + ":1: a folder, not a recipe file");
  const std::string absent = (folder / "absent.yaml").string();
  EXPECT_EQ(user_error_of([&] { read_yaml_file(absent); }), absent + ":1: cannot be opened: No such file or directory");
  const std::string binary = (folder / "binary.yaml").string();
  std::ofstream(binary, std::ios::binary) << "\x7f"
                                          << "ELF\x02\x01\x01";
  EXPECT_EQ(user_error_of([&] { read_yaml_file(binary); }), binary + ":1: not a text file (it contains the byte 0x7f)");
  EXPECT_EQ(user_error_of([] { read_yaml_file("/dev/zero"); }), "/dev/zero:1: larger than 1048576 bytes, too large for a recipe");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
