// Wrong values for every row of the field table, made from what the row says it accepts, and misspellings of every key.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "config/settings_fields.h"
#include "config/settings_reader.h"
#include "config/suggestions.h"
#include "config/user_error.h"
#include "config/yaml.h"

namespace trireme {
namespace {

std::string error_of(const std::string& key, const std::string& yaml) {
  Tree recipe;
  recipe.set(key, *read_yaml("v: " + yaml, "r.yaml").find("v"));
  return user_error_of([&] { read_settings(recipe); });
}

bool takes_null(const Field& field) { return field.accepts.find("null") != std::string::npos; }

// The limits in "an integer from 1 to 20" and "a number from 0 to below 1".
struct Limits {
  double least = 0, most = 0;
  bool most_excluded = false;
};
Limits limits_of(const Field& field) {
  std::smatch match;
  const std::regex range("from (-?[0-9.e+-]+) to (below )?(-?[0-9.e+-]+)");
  if (!std::regex_search(field.accepts, match, range)) ADD_FAILURE() << field.key << ": " << field.accepts;
  return {std::stod(match[1]), std::stod(match[3]), match[2].matched};
}

// Values that are wrong for the row, in YAML.
std::vector<std::string> wrong_values(const Field& field) {
  std::vector<std::string> wrong;
  if (field.type == "integer" || field.type == "number") {
    const Limits limits = limits_of(field);
    wrong = {"word", "true", "[1]", "{a: 1}", ".nan", "'5'", fmt::format("{}", limits.least - 1), "-.inf"};
    // The largest seed is the largest integer there is.
    if (limits.most < 9e18) wrong.push_back(fmt::format("{}", limits.most_excluded ? limits.most : limits.most * 2 + 1));
    if (field.type == "integer") wrong.emplace_back("2.5");
  } else if (field.type == "boolean") {
    wrong = {"word", "2", "-1", "0.5", "[true]", "{a: true}", "'true'"};
  } else if (field.type == "choice") {
    wrong = {"no_such_word", "[a]", "{a: b}", "-7", "''"};
  } else if (field.type == "text") {
    wrong = {"[a]", "{a: b}"};
  } else if (field.type == "list") {
    wrong = {"[[1]]", "{a: b}", "[{a: b}]", "true"};
  } else {
    EXPECT_EQ(field.type, "duration") << field.key;
    wrong = {"5", "word", "'1:2'", "[1]", "{a: 1}", "'99:99:99:x'", "true"};
  }
  if (!takes_null(field) && field.type != "list") wrong.emplace_back("null");
  return wrong;
}

TEST(BadSettings, EveryWrongValueIsAnsweredWithWhatWouldBeRight) {
  for (const Field& field : settings_fields()) {
    for (const std::string& wrong : wrong_values(field)) {
      const Tree value = *read_yaml("v: " + wrong, "r.yaml").find("v");
      const std::string start = fmt::format("{}={}: expected ", field.key, value.brief());
      const std::string error = error_of(field.key, wrong);
      const bool is_plain = field.type != "list" && field.type != "duration" && field.type != "text";
      const std::string end = (is_plain ? field.accepts : "") + " (r.yaml:1)";
      EXPECT_TRUE(error.starts_with(start) && error.ends_with(end)) << field.key << "=" << wrong << ": " << error;
      EXPECT_TRUE(!is_plain || error == start + end) << error;
    }
    EXPECT_EQ(error_of(field.key, "???"), fmt::format("{} must be given: {} (r.yaml:1)", field.key, field.accepts));
  }
}

TEST(BadSettings, TheLimitsThemselvesAreAccepted) {
  for (const Field& field : settings_fields()) {
    if (field.type != "integer" && field.type != "number") continue;
    const Limits limits = limits_of(field);
    Settings settings;
    EXPECT_NO_THROW(field.read(settings, Tree(static_cast<int64_t>(std::ceil(limits.least))))) << field.key;
    if (!limits.most_excluded && limits.most < 9e18 && limits.most >= 1) {
      EXPECT_NO_THROW(field.read(settings, Tree(static_cast<int64_t>(limits.most)))) << field.key;
    }
    if (takes_null(field)) {
      EXPECT_NO_THROW(field.read(settings, Tree{})) << field.key;
    }
  }
}

// One letter left out, doubled, or swapped with the next, in the middle of the last word.
std::vector<std::string> misspelled(const std::string& key) {
  const size_t word = key.rfind('.') + 1, middle = word + (key.size() - word) / 2;
  std::string missing = key, doubled = key, swapped = key;
  missing.erase(middle, 1);
  doubled.insert(middle, 1, key[middle]);
  if (middle + 1 < key.size()) std::swap(swapped[middle], swapped[middle + 1]);
  return {missing, doubled, swapped};
}

TEST(BadSettings, AMisspelledKeyNamesTheNearestOne) {
  int tried = 0;
  for (const Field& field : settings_fields()) {
    for (const std::string& typo : misspelled(field.key)) {
      if (is_known_key(typo)) continue;
      const std::string error = error_of(typo, "1");
      const std::string start = typo + ": unknown key; did you mean ";
      ASSERT_TRUE(error.starts_with(start)) << error;
      const std::string suggested = error.substr(start.size(), error.find('?') - start.size());
      EXPECT_LE(edit_distance(typo, suggested), 1) << error;
      ++tried;
    }
  }
  EXPECT_GT(tried, 200);
}

}  // namespace
}  // namespace trireme
