#include "config/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace trireme {

PathStep split_path(std::string_view path) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

namespace {

const Tree* find_child(const Tree& tree, std::string_view key) {
  if (tree.is_map()) {
    const auto entry = std::ranges::find(tree.map(), key, &Tree::Entry::key);
    return entry == tree.map().end() ? nullptr : &entry->value;
  }
  if (tree.is_list()) {
    size_t index = 0;
    const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), index);
    const bool is_index = failed == std::errc{} && end == key.data() + key.size();
    return is_index && index < tree.list().size() ? &tree.list()[index] : nullptr;
  }
  return nullptr;
}

}  // namespace

const Tree* Tree::find(std::string_view path) const {
  const auto [key, rest] = split_path(path);
  const Tree* child = find_child(*this, key);
  return child == nullptr || rest.empty() ? child : child->find(rest);
}

Tree* Tree::find(std::string_view path) { return const_cast<Tree*>(std::as_const(*this).find(path)); }

void Tree::set(std::string_view path, Tree value) {
  if (is_null()) value_ = Map{};
  const auto [key, rest] = split_path(path);
  if (!is_map()) throw UserError("{} is a single value, so {} cannot be set below it{}", brief(), path, where_suffix());
  auto entry = std::ranges::find(map(), key, &Entry::key);
  if (entry == map().end()) entry = map().insert(entry, Entry{std::string(key), Tree{}});
  if (rest.empty())
    entry->value = std::move(value);
  else
    entry->value.set(rest, std::move(value));
}

bool Tree::remove(std::string_view path) {
  if (!is_map()) return false;
  const auto [key, rest] = split_path(path);
  const auto entry = std::ranges::find(map(), key, &Entry::key);
  if (entry == map().end()) return false;
  if (!rest.empty()) return entry->value.remove(rest);
  map().erase(entry);
  return true;
}

void Tree::merge(Tree over) {
  if (!is_map() || !over.is_map()) {
    *this = std::move(over);
    return;
  }
  for (Entry& entry : over.map()) {
    const auto mine = std::ranges::find(map(), entry.key, &Entry::key);
    if (mine == map().end())
      map().push_back(std::move(entry));
    else
      mine->value.merge(std::move(entry.value));
  }
}

std::string Tree::text() const {
  switch (kind()) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return boolean() ? "true" : "false";
    case Kind::integer:
      return fmt::format("{}", integer());
    case Kind::real:
      return real_text(real());
    case Kind::string:
      return string();
    case Kind::list: {
      std::string joined;
      for (const Tree& item : list()) joined += (joined.empty() ? "" : ",") + item.text();
      return "[" + joined + "]";
    }
    case Kind::map: {
      std::string joined;
      for (const Entry& entry : map()) joined += (joined.empty() ? "" : ",") + entry.key + ":" + entry.value.text();
      return "{" + joined + "}";
    }
  }
  return {};
}

std::string Tree::brief() const {
  constexpr size_t kLongest = 100;
  std::string line = text();
  std::ranges::replace(line, '\n', ' ');
  if (line.size() > kLongest) line.replace(kLongest - 3, std::string::npos, "...");
  return line;
}

std::string Tree::where() const {
  if (!origin.file) return {};
  return origin.line > 0 ? fmt::format("{}:{}", *origin.file, origin.line) : *origin.file;
}

std::string Tree::where_suffix() const { return origin.file && origin.line > 0 ? fmt::format(" ({})", where()) : std::string{}; }

}  // namespace trireme
