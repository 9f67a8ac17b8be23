#include "config/settings_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/known_keys.h"
#include "config/settings_fields.h"
#include "config/tree_json.h"
#include "config/yaml.h"

namespace trireme {

Tree to_tree(const Settings& settings) {
  Tree tree;
  for (const Field& field : settings_fields()) {
    Tree value = field.write(settings);
    // LitGPT's keys are outside of the groups and are printed only if given.
    if (value.is_null() && field.key.find('.') == std::string::npos) continue;
    tree.set(field.key, std::move(value));
  }
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

nlohmann::ordered_json settings_json() {
  const Settings defaults;
  auto list = nlohmann::ordered_json::array();
  for (const Field& field : settings_fields())
    list.push_back({{"key", field.key},
                    {"type", field.type},
                    {"default", to_json(field.write(defaults))},
                    {"accepts", field.accepts},
                    {"help", field.help}});
  return list;
}

namespace {

// The groups of the page in order; a key belongs to the first group whose prefix it has.
struct Group {
  std::string_view prefix, title;
};
constexpr Group kGroups[] = {
    {"trainer.", "trainer: the run"},
    {"exp_manager.", "exp_manager: logs and checkpoints"},
    {"model.optim.sched.", "model.optim.sched: the learning rate"},
    {"model.optim.", "model.optim: the optimizer"},
    {"model.data.", "model.data: the samples"},
    {"model.tokenizer.", "model.tokenizer: the tokenizer"},
    {"model.nsys_profile.", "model.nsys_profile: the profiler's window"},
    {"model.", "model: sizes, architecture, layout"},
    {"", "LitGPT's names"},
};

const Group& group_of(const std::string& key) {
  return *std::ranges::find_if(kGroups, [&](const Group& group) { return key.starts_with(group.prefix); });
}

// Escapes a table cell, because a bar would end it.
std::string cell(std::string text) {
  for (size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', bar + 2)) text.insert(bar, "\\");
  return text;
}

}  // namespace

std::string settings_page() {
  const Settings defaults;
  std::string page =
      "# Settings\n\n"
      "Printed by `trireme config --markdown` from the table that the program itself reads recipes by.\n"
      "[config.md](config.md) says how recipes are written and changed.\n";
  for (const Group& group : kGroups) {
    page += fmt::format("\n## {}\n\n| key | default | accepts | what it does |\n|---|---|---|---|\n", group.title);
    for (const Field& field : settings_fields())
      if (&group_of(field.key) == &group)
        page += fmt::format("| `{}` | `{}` | {} | {} |\n", field.key, field.write(defaults).text(), cell(field.accepts),
                            cell(field.help));
  }
  page +=
      "\n## Refused unless off\n\nKeys of NeMo that ask for what this program does not do.\n\n| key | accepted | answer "
      "|\n|---|---|---|\n";
  for (const RestrictedKey& key : restricted_keys()) {
    if (key.other == OtherValue::is_said) continue;
    std::vector<std::string> accepted = key.accepted;
    accepted.emplace_back("null");
    page += fmt::format("| `{}` | {} | {} |\n", key.key, join_names(accepted), cell(key.reason));
  }
  page +=
      "\n## Known and without effect\n\nKeys of NeMo and its launcher that have nothing to act on here; a run says how many "
      "it finds, and lists them\nwith `--verbose`.\n\n";
  for (const KeysWithoutEffect& group : keys_without_effect())
    for (const std::string& key : group.keys)
      if (!group.reason.empty()) page += fmt::format("- `{}`: {}\n", key, group.reason);
  for (const RestrictedKey& key : restricted_keys())
    if (key.other == OtherValue::is_said) page += fmt::format("- `{}`: {}\n", key.key, key.reason);
  return page;
}

}  // namespace trireme
