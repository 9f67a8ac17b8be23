#include "config/defaults_list.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace trireme {

namespace {

[[noreturn]] void fail(const Tree& item) {
  throw UserError("{}: defaults: {}: expected _self_, the name of a file, or group: name", item.where(), item.brief());
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text = trimmed(text.substr(word.size()));
  return true;
}

// Parses "optional group@package".
void read_key(std::string_view text, DefaultsItem& item) {
  if (take_word(text, "override ")) item.kind = DefaultsItem::Kind::override_group;
  if (take_word(text, "optional ")) item.optional = true;
  const size_t at = text.find('@');
  item.group = trimmed(text.substr(0, at));
  if (at != std::string_view::npos) item.package = trimmed(text.substr(at + 1));
}

std::vector<std::string> read_names(const Tree& value, const Tree& item) {
  if (value.is_null()) return {};
  if (value.is_string()) return {value.string()};
  if (!value.is_list()) fail(item);
  std::vector<std::string> names;
  for (const Tree& name : value.list()) {
    if (!name.is_string()) fail(item);
    names.push_back(name.string());
  }
  return names;
}

DefaultsItem read_item(const Tree& tree) {
  DefaultsItem item;
  item.origin = tree.origin;
  if (tree.is_string()) {
    if (tree.string() == "_self_") return item;
    item.kind = DefaultsItem::Kind::file;
    read_key(tree.string(), item);
    item.names = {std::exchange(item.group, {})};
    if (item.kind != DefaultsItem::Kind::file || item.names[0].empty()) fail(tree);
    return item;
  }
  if (!tree.is_map() || tree.map().size() != 1) fail(tree);
  const Tree::Entry& entry = tree.map().front();
  item.kind = DefaultsItem::Kind::group;
  read_key(entry.key, item);
  if (item.group.empty()) fail(tree);
  item.names = read_names(entry.value, tree);
  return item;
}

}  // namespace

std::vector<DefaultsItem> read_defaults_list(const Tree& recipe) {
  std::vector<DefaultsItem> items;
  if (const Tree* list = recipe.find("defaults"); list != nullptr && !list->is_null()) {
    if (!list->is_list()) throw UserError("{}: defaults={}: expected a list", list->where(), list->brief());
    for (const Tree& item : list->list()) items.push_back(read_item(item));
  }
  const auto is_self = [](const DefaultsItem& item) { return item.kind == DefaultsItem::Kind::self; };
  const auto selves = std::ranges::count_if(items, is_self);
  if (selves == 0) items.emplace_back();
  if (selves > 1) throw UserError("{}: defaults: _self_ is given twice", recipe.find("defaults")->where());
  return items;
}

}  // namespace trireme
