#include "base/error.h"
#include "config/yaml.h"
#include "report/readers.h"

namespace trireme {
namespace {

nlohmann::json json_of(const Tree& value) {
  switch (value.kind()) {
    case Tree::Kind::null:
      return nullptr;
    case Tree::Kind::boolean:
      return value.boolean();
    case Tree::Kind::integer:
      return value.integer();
    case Tree::Kind::real:
      return value.real();
    case Tree::Kind::string:
      return value.string();
    case Tree::Kind::list: {
      nlohmann::json list = nlohmann::json::array();
      for (const Tree& element : value.list()) list.push_back(json_of(element));
      return list;
    }
    case Tree::Kind::map:
      return value.text();  // a map inside a list
  }
  CHECK_NEVER("a kind of value that is not there");
}

void add_leaves(const Tree& tree, const std::string& path, RunLog& log) {
  if (!tree.is_map()) {
    log.parameters.emplace(recipe_key(path), json_of(tree));
    return;
  }
  for (const Tree::Entry& entry : tree.map()) add_leaves(entry.value, join_path(path, entry.key), log);
}

}  // namespace

RunLog read_settings_file(const std::string& path) {
  RunLog log;
  log.files.push_back(path);
  const Tree tree = read_yaml(read_log_file(path), path);
  if (tree.is_map()) add_leaves(tree, "", log);  // LitGPT writes an empty one
  return log;
}

std::string recipe_key(std::string_view logged) {
  std::string key(logged);
  for (char& c : key)
    if (c == '/') c = '.';
  constexpr std::string_view kConfiguration = "cfg.";
  if (key.starts_with(kConfiguration)) key.replace(0, kConfiguration.size(), "model.");
  return key;
}

}  // namespace trireme
