#include "config/tree_json.h"
#include "config/yaml.h"
#include "report/readers.h"

namespace trireme {
namespace {

nlohmann::json json_of(const Tree& value) {
  if (!value.is_list()) return scalar_json(value);
  nlohmann::json list = nlohmann::json::array();
  for (const Tree& element : value.list()) list.push_back(json_of(element));
  return list;
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
  if (tree.is_map()) add_leaves(tree, "", log);  // LitGPT writes an empty file
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
