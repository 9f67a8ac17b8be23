#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/utf8.h"
#include "config/yaml.h"

namespace trireme {

namespace {

// Whether the text is a plain word or path that always reads back as a string; everything else is quoted.
bool needs_no_quotes(const std::string& text) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/'; };
  return !text.empty() && text[0] != '-' && std::ranges::all_of(text, is_plain) && yaml_scalar(text).is_string();
}

std::string quoted(const std::string& text) {
  require_utf8(text, text);
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

std::string string_text(const std::string& text) { return needs_no_quotes(text) ? text : quoted(text); }

bool is_container(const Tree& tree) { return tree.is_list() || tree.is_map(); }

std::string on_line(const Tree& tree) {
  if (tree.is_map()) return "{}";
  if (tree.is_string()) return string_text(tree.string());
  if (!tree.is_list()) return tree.text();
  std::string items;
  for (const Tree& item : tree.list()) items += (items.empty() ? "" : ", ") + on_line(item);
  return "[" + items + "]";
}

// Whether a value is written on the line of its key or dash: a scalar, an empty container, or a short list of scalars.
bool fits_on_line(const Tree& tree) {
  constexpr size_t kLongest = 100;
  if (tree.is_map()) return tree.map().empty();
  return !tree.is_list() || (std::ranges::none_of(tree.list(), is_container) && on_line(tree).size() <= kLongest);
}

void write_block(const Tree& tree, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  const auto write_value = [&](const std::string& lead, const Tree& value) {
    if (fits_on_line(value)) {
      out += fmt::format("{}{} {}\n", margin, lead, on_line(value));
    } else {
      out += fmt::format("{}{}\n", margin, lead);
      write_block(value, indent + 2, out);
    }
  };
  if (tree.is_map())
    for (const Tree::Entry& entry : tree.map()) write_value(string_text(entry.key) + ":", entry.value);
  else
    for (const Tree& item : tree.list()) write_value("-", item);
}

}  // namespace

std::string write_yaml(const Tree& tree) {
  if (fits_on_line(tree)) return on_line(tree) + "\n";
  std::string out;
  write_block(tree, 0, out);
  return out;
}

}  // namespace trireme
