#include "evaluate/text_filter.h"

#include <functional>

#include "base/error.h"
#include "config/suggestions.h"
#include "evaluate/python_text.h"

namespace trireme {
namespace {

using Arguments = std::vector<std::string>;

struct FilterKind {
  const char* name;
  size_t arguments;
  std::function<std::string(std::string_view, const Arguments&)> apply;
  bool takes_characters = false;  // each argument is one character
};

std::string up_to(std::string_view text, size_t at, std::string_view otherwise) {
  return std::string(at == text.npos ? otherwise : text.substr(0, at));
}

std::string from(std::string_view text, size_t at, size_t skipped) {
  return std::string(at == text.npos ? text : text.substr(at + skipped));
}

const std::vector<FilterKind>& filter_kinds() {
  static const std::vector<FilterKind> kinds = {
      {"strip", 0, [](std::string_view text, const Arguments&) { return python_strip(text); }},
      {"capitalize", 0, [](std::string_view text, const Arguments&) { return python_capitalize(text); }},
      {"replace", 2, [](std::string_view text, const Arguments& a) { return python_replace(text, a[0], a[1]); }},
      // Up to and after a separator. Without one the whole text comes after it, and nothing before the last.
      {"before", 1, [](std::string_view text, const Arguments& a) { return up_to(text, text.find(a[0]), text); }},
      {"after", 1, [](std::string_view text, const Arguments& a) { return from(text, text.find(a[0]), a[0].size()); }},
      {"before_last", 1, [](std::string_view text, const Arguments& a) { return up_to(text, text.rfind(a[0]), ""); }},
      {"after_last", 1, [](std::string_view text, const Arguments& a) { return from(text, text.rfind(a[0]), a[0].size()); }},
      {"remove_between", 2, [](std::string_view text, const Arguments& a) { return remove_between(text, a[0][0], a[1][0]); },
       true},
      {"strip_between", 2, [](std::string_view text, const Arguments& a) { return strip_between(text, a[0][0], a[1][0]); }, true},
  };
  return kinds;
}

const FilterKind* find_kind(std::string_view name) {
  for (const FilterKind& kind : filter_kinds())
    if (name == kind.name) return &kind;
  return nullptr;
}

}  // namespace

std::string TextFilter::apply(std::string_view text) const { return find_kind(name)->apply(text, arguments); }

TextFilter make_filter(const std::string& where, std::string name, std::vector<std::string> arguments) {
  const FilterKind* kind = find_kind(name);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const FilterKind& known : filter_kinds()) names.emplace_back(known.name);
    throw UserError("{}: filter {} is not known{}; use {}", where, name, did_you_mean(name, names), fmt::join(names, ", "));
  }
  if (arguments.size() != kind->arguments)
    throw UserError("{}: filter {} takes {} arguments, and here are {}", where, name, kind->arguments, arguments.size());
  for (const std::string& argument : arguments)
    if (argument.empty() ? &argument == &arguments.front() : kind->takes_characters && argument.size() != 1)
      throw UserError("{}: filter {}: \"{}\" should be {}", where, name, argument,
                      kind->takes_characters ? "one character" : "a text to look for");
  return {.name = std::move(name), .arguments = std::move(arguments)};
}

std::vector<TextFilter> read_filters(const std::string& where, const Tree& list) {
  if (!list.is_list()) throw UserError("{}: expected a list of filters{}", where, list.where_suffix());
  std::vector<TextFilter> filters;
  for (const Tree& entry : list.list()) {
    if (entry.is_string()) {
      filters.push_back(make_filter(where, entry.string(), {}));
      continue;
    }
    if (!entry.is_map() || entry.map().size() != 1)
      throw UserError("{}: expected the name of a filter, or name: [arguments]{}", where, entry.where_suffix());
    const auto& [name, given] = entry.map().front();
    Arguments arguments;
    if (given.is_list())
      for (const Tree& argument : given.list()) arguments.push_back(argument.text());
    else
      arguments.push_back(given.text());
    filters.push_back(make_filter(where, name, std::move(arguments)));
  }
  return filters;
}

std::string apply_filters(const std::vector<TextFilter>& filters, std::string text) {
  for (const TextFilter& filter : filters) text = filter.apply(text);
  return text;
}

}  // namespace trireme
