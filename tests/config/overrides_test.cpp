#include "config/overrides.h"

#include <gtest/gtest.h>

#include "config/user_error.h"
#include "config/yaml.h"

namespace trireme {
namespace {

TEST(Override, ReadsValues) {
  struct Case {
    const char* text;
    Tree::Kind kind;
    const char* value;
  };
  using Kind = Tree::Kind;
  const Case cases[] = {
      {"a=1", Kind::integer, "1"},
      {"a=1e-4", Kind::real, "0.0001"},
      {"a=true", Kind::boolean, "true"},
      {"a=null", Kind::null, "null"},
      {"a=", Kind::string, ""},
      {"a=bf16-mixed", Kind::string, "bf16-mixed"},
      {"a=/data/my file.txt", Kind::string, "/data/my file.txt"},
      {"a=x=y", Kind::string, "x=y"},
      {"a=00:01:00:00", Kind::string, "00:01:00:00"},
      {"a='1'", Kind::string, "1"},
      {"a=\"it's\"", Kind::string, "it's"},
      {"a='it\\'s'", Kind::string, "it's"},
      {"a=[]", Kind::list, "[]"},
      {"a=[1, b ,'c,d']", Kind::list, "[1,b,c,d]"},
      {"a=[.5,/data/x,.5,/data/y]", Kind::list, "[0.5,/data/x,0.5,/data/y]"},
      {"a=[[1,2],[3]]", Kind::list, "[[1,2],[3]]"},
      {"a={}", Kind::map, "{}"},
      {"a={train:[1.0,/x],test: y}", Kind::map, "{train:[1.0,/x],test:y}"},
      {"a=${multiply:2,${b}}", Kind::string, "${multiply:2,${b}}"},
      {"a=[${multiply:2,3},4]", Kind::list, "[${multiply:2,3},4]"},
  };
  for (const Case& c : cases) {
    const Override change = parse_override(c.text);
    EXPECT_EQ(change.key, "a") << c.text;
    EXPECT_EQ(change.value.kind(), c.kind) << c.text;
    EXPECT_EQ(change.value.text(), c.value) << c.text;
  }
  EXPECT_EQ(parse_override("a=[1,b,'c,d']").value.list().size(), 3u);
}

TEST(Override, Applies) {
  struct Case {
    const char* text;
    const char* result;
  };
  const Case cases[] = {
      {"a.b=2", "{a:{b:2,c:[1]},d:x}"},   {"a.c=[]", "{a:{b:1,c:[]},d:x}"},
      {"a={b:5}", "{a:{b:5,c:[1]},d:x}"}, {"+a.e.f=3", "{a:{b:1,c:[1],e:{f:3}},d:x}"},
      {"++a.b=4", "{a:{b:4,c:[1]},d:x}"}, {"++g=h", "{a:{b:1,c:[1]},d:x,g:h}"},
      {"~a.b", "{a:{c:[1]},d:x}"},        {"~a", "{d:x}"},
  };
  for (const Case& c : cases) {
    Tree recipe = read_yaml("a: {b: 1, c: [1]}\nd: x\n", "r.yaml");
    apply_override(recipe, parse_override(c.text));
    EXPECT_EQ(recipe.text(), c.result) << c.text;
  }
}

TEST(Override, Mistakes) {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"a.b", "a.b: a value is missing; write a.b=VALUE"},
      {"=3", "=3: '' is not a key; write for example trainer.max_steps=100"},
      {"a..b=3", "a..b=3: 'a..b' is not a key; write for example trainer.max_steps=100"},
      {"a b=3", "a b=3: 'a b' is not a key; write for example trainer.max_steps=100"},
      {"", ": '' is not a key; write for example trainer.max_steps=100"},
      {"~", "~: '' is not a key; write for example trainer.max_steps=100"},
      {"~a.b=1", "~a.b=1: a removal takes no value; write ~a.b"},
      {"~a.z", "~a.z: the recipe has no a.z to remove"},
      {"+a.b=2", "+a.b=2: a.b is already there (1); use a.b=2 to change it"},
      {"++a.b.c=2", "1 is a single value, so c cannot be set below it (r.yaml:1)"},
      {"a.b=[1,2", "a.b=[1,2: a list must end with ]"},
      {"a.b=[1,,2]", "a.b=[1,,2]: a value is missing"},
      {"a.b=[1]2", "a.b=[1]2: nothing may follow the value, but '2' does"},
      {"a.b='x", "a.b='x: the closing ' is missing"},
      {"a.b={x}", "a.b={x}: a map must be written {key: value, ...}"},
      {"a.b={x:1", "a.b={x:1: a map must end with }"},
      {"a.b={x:1,x:2}", "a.b={x:1,x:2}: the key x is given twice"},
  };
  for (const Case& c : cases) {
    Tree recipe = read_yaml("a: {b: 1}\n", "r.yaml");
    EXPECT_EQ(user_error_of([&] { apply_override(recipe, parse_override(c.text)); }), c.message) << c.text;
  }
  const std::string deep = "a=" + std::string(100'000, '[');
  EXPECT_TRUE(user_error_of([&] { parse_override(deep); }).ends_with("more than 32 levels of brackets"));
}

}  // namespace
}  // namespace trireme
