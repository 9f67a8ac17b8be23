#include "config/settings_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/settings_fields.h"
#include "config/yaml.h"

namespace trireme {

Tree to_tree(const Settings& settings) {
  Tree tree;
  for (const Field& field : settings_fields()) tree.set(field.key, field.write(settings));
  return tree;
}

std::string to_yaml(const Settings& settings) { return write_yaml(to_tree(settings)); }

std::string settings_help() {
  const Settings defaults;
  size_t widest = 0;
  for (const Field& field : settings_fields())
    widest = std::max(widest, field.key.size() + field.write(defaults).text().size() + 1);
  std::string table;
  for (const Field& field : settings_fields()) {
    const std::string assignment = fmt::format("{}={}", field.key, field.write(defaults).text());
    table += fmt::format("{:<{}}  {} ({})\n", assignment, widest, field.help, field.accepts);
  }
  return table;
}

}  // namespace trireme
