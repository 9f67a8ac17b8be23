#include "launch/given_options.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

// Given at several places, these add up.
constexpr std::array<std::string_view, 6> kAdded = {"env", "mount", "before", "after", "srun-arg", "sbatch-arg"};

[[noreturn]] void reject(const LaunchOption& option, const Tree& value, std::string_view expected) {
  throw UserError("{}={}: {}{}", file_key(option), value.brief(), expected, value.where_suffix());
}

Texts texts_of(const LaunchOption& option, const Tree& value) {
  Texts texts;
  if (value.is_map()) {  // env: {NCCL_DEBUG: INFO}
    for (const Tree::Entry& entry : value.map()) {
      if (entry.value.is_map() || entry.value.is_list()) reject(option, value, "use one value for each name");
      if (!entry.value.is_null()) texts.push_back(entry.key + "=" + entry.value.text());
    }
    return texts;
  }
  if (!value.is_list()) return {value.text()};
  for (const Tree& item : value.list()) {
    if (item.is_map() || item.is_list()) reject(option, value, "use a list of words");
    if (!item.is_null()) texts.push_back(item.text());
  }
  return texts;
}

}  // namespace

std::string file_key(const LaunchOption& option) {
  std::string key(option.name);
  std::ranges::replace(key, '-', '_');
  return key;
}

const LaunchOption* find_launch_option(std::string_view name) {
  std::string spelling(name);
  std::ranges::replace(spelling, '_', '-');
  const auto table = launch_option_table();
  const auto found = std::ranges::find(table, spelling, &LaunchOption::name);
  return found == table.end() ? nullptr : &*found;
}

void set_option(GivenOptions& options, const LaunchOption& option, const Tree& value) {
  if (value.is_null()) return;
  if (const auto* text = std::get_if<std::string LaunchOptions::*>(&option.member)) {
    if (value.is_list() || value.is_map()) reject(option, value, "use one word");
    options.values.*(*text) = value.text();
  } else if (const auto* number = std::get_if<int64_t LaunchOptions::*>(&option.member)) {
    if (value.kind() != Tree::Kind::integer || value.integer() < 0) reject(option, value, "use a number, 0 or more");
    options.values.*(*number) = value.integer();
  } else if (const auto* flag = std::get_if<bool LaunchOptions::*>(&option.member)) {
    if (value.kind() != Tree::Kind::boolean) reject(option, value, "use true or false");
    options.values.*(*flag) = value.boolean();
  } else {
    options.values.*(std::get<Texts LaunchOptions::*>(option.member)) = texts_of(option, value);
  }
  options.places[option.name] = value.where();
}

void add_below(GivenOptions& options, const GivenOptions& below) {
  for (const LaunchOption& option : launch_option_table()) {
    const auto place = below.places.find(option.name);
    if (place == below.places.end()) continue;
    const bool adds = std::ranges::find(kAdded, option.name) != kAdded.end();
    if (options.has(option.name) && !adds) continue;
    std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), Texts LaunchOptions::*>) {
            Texts all = below.values.*member;
            const Texts& own = options.values.*member;
            all.insert(all.end(), own.begin(), own.end());
            options.values.*member = std::move(all);
          } else {
            options.values.*member = below.values.*member;
          }
        },
        option.member);
    options.places.emplace(option.name, place->second);
  }
}

Tree to_tree(const GivenOptions& options) {
  Tree tree(Tree::Map{});
  for (const LaunchOption& option : launch_option_table()) {
    if (!options.has(option.name)) continue;
    Tree value;
    std::visit(
        [&](auto member) {
          const auto& given = options.values.*member;
          if constexpr (std::is_same_v<decltype(member), Texts LaunchOptions::*>) {
            Tree::List list;
            for (const std::string& text : given) list.emplace_back(std::string(text));
            value = Tree(std::move(list));
          } else {
            value = Tree(std::decay_t<decltype(given)>(given));
          }
        },
        option.member);
    tree.map().push_back({file_key(option), std::move(value)});
  }
  return tree;
}

}  // namespace trireme
