// JSON as Python writes it. The expected texts were made with Python 3.11: json.dumps(value) and json.dumps(value, indent=2).
#include "base/python_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

nlohmann::ordered_json value() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  nlohmann::ordered_json value;
  value["n"] = {1.0, 0.1, 1e-5, 1e16, 5e-324, 0.30000000000000004, -3, true, nullptr};
  value["e"] = {nlohmann::ordered_json::array(), nlohmann::ordered_json::object()};
  value["s"] = "\u00e9\"\n\U0001F600";
  value["o"] = {{"a", {{"b", 2.0}}}};
  value["x"] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  return value;
}

TEST(PythonJson, InOneLine) {
  EXPECT_EQ(python_json(value()),
            R"({"n": [1.0, 0.1, 1e-05, 1e+16, 5e-324, 0.30000000000000004, -3, true, null], "e": [[], {}], )"
            R"("s": "\u00e9\"\n\ud83d\ude00", "o": {"a": {"b": 2.0}}, "x": [NaN, Infinity, -Infinity]})");
}

TEST(PythonJson, Indented) {
  EXPECT_EQ(python_json(value(), 2), R"({
  "n": [
    1.0,
    0.1,
    1e-05,
    1e+16,
    5e-324,
    0.30000000000000004,
    -3,
    true,
    null
  ],
  "e": [
    [],
    {}
  ],
  "s": "\u00e9\"\n\ud83d\ude00",
  "o": {
    "a": {
      "b": 2.0
    }
  },
  "x": [
    NaN,
    Infinity,
    -Infinity
  ]
})");
}

TEST(PythonJson, AppendsToWhatIsThere) {
  std::string text = "key: ";
  append_python_json(text, nlohmann::json{{"b", 1}, {"a", 2.0}});
  append_python_number(text += " ", 3);
  EXPECT_EQ(text, R"(key: {"a": 2.0, "b": 1} 3.0)");
}

}  // namespace
}  // namespace trireme
