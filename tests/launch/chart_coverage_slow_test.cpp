// Every value of the chart is set by a value set of tests/launch/chart, and changes what is rendered.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "config/yaml.h"
#include "launch/helm.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Leaf {
  std::vector<std::string> path;
  bool has_effect = true;
};

std::string text_of(const std::vector<std::string>& path) { return fmt::format("{}", fmt::join(path, ".")); }

// The values that the schema describes: what has no properties of its own. Members of lists belong to their list.
void add_leaves(const nlohmann::json& schema, const std::vector<std::string>& path, std::vector<Leaf>& leaves) {
  for (const auto& [name, value] : schema.at("properties").items()) {
    std::vector<std::string> here = path;
    here.push_back(name);
    if (value.contains("properties"))
      add_leaves(value, here, leaves);
    else
      leaves.push_back({here, value.value("x-effect", "") != "none"});
  }
}

std::vector<Leaf> schema_leaves() {
  std::ifstream file(kChart + "/values.schema.json");
  std::vector<Leaf> leaves;
  add_leaves(nlohmann::json::parse(file), {}, leaves);
  return leaves;
}

// Not Tree::find, because keys may contain dots.
const Tree* value_at(const Tree& tree, const std::vector<std::string>& path) {
  const Tree* here = &tree;
  for (const std::string& key : path) {
    if (!here->is_map()) return nullptr;
    const auto found = std::ranges::find(here->map(), key, &Tree::Entry::key);
    if (found == here->map().end()) return nullptr;
    here = &found->value;
  }
  return here;
}

Tree without(Tree tree, const std::vector<std::string>& path) {
  Tree* here = &tree;
  for (size_t i = 0; i + 1 < path.size(); ++i) here = &std::ranges::find(here->map(), path[i], &Tree::Entry::key)->value;
  std::erase_if(here->map(), [&](const Tree::Entry& entry) { return entry.key == path.back(); });
  return tree;
}

class ChartCoverage : public testing::Test {
 protected:
  void SetUp() override { NEEDS_HELM(); }
  // Errors are a rendering too: a value that others need.
  std::string rendering(const Tree& values) {
    const Rendered result = render_chart(folder_, "-f " + folder_.write("values.yaml", write_yaml(values)));
    return result.manifests + result.errors;
  }
  TemporaryFolder folder_;
};

TEST_F(ChartCoverage, ValuesAndSchemaHaveTheSameNames) {
  std::set<std::string> known;
  for (const Leaf& leaf : schema_leaves()) known.insert(text_of(leaf.path));
  const std::function<void(const Tree&, const std::string&)> check = [&](const Tree& tree, const std::string& path) {
    for (const Tree::Entry& entry : tree.map()) {
      const std::string here = path.empty() ? entry.key : path + "." + entry.key;
      if (!known.contains(here) && entry.value.is_map())
        check(entry.value, here);
      else
        EXPECT_TRUE(known.contains(here)) << here << " is in values.yaml and not in values.schema.json";
    }
  };
  check(read_yaml_file(kChart + "/values.yaml"), "");
}

TEST_F(ChartCoverage, EveryValueChangesTheRendering) {
  std::vector<std::pair<Tree, std::string>> sets;
  for (const fs::path& file : value_sets()) {
    const Tree values = read_yaml_file(file.string());
    sets.emplace_back(values, rendering(values));
  }
  for (const Leaf& leaf : schema_leaves()) {
    if (leaf.path.front() == "global") continue;  // Helm's
    bool is_set = false, is_effective = false;
    for (const auto& [values, with] : sets) {
      if (value_at(values, leaf.path) == nullptr) continue;
      is_set = true;
      if (!leaf.has_effect || is_effective) break;
      is_effective = rendering(without(values, leaf.path)) != with;
    }
    EXPECT_TRUE(is_set) << text_of(leaf.path) << " is in no value set";
    EXPECT_TRUE(!leaf.has_effect || is_effective) << text_of(leaf.path) << " changes nothing";
  }
}

}  // namespace
}  // namespace trireme
