#include "evaluate/text_template.h"

#include <fmt/ranges.h>

#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace trireme {
namespace {

std::string names_of(const Document& document) {
  std::vector<std::string> names;
  if (document.is_object())
    for (const auto& [name, value] : document.items()) names.push_back(name);
  return names.empty() ? "no fields" : fmt::format("{}", fmt::join(names, ", "));
}

const Document* child_of(const Document& value, std::string_view key) {
  if (value.is_object()) {
    const auto found = value.find(std::string(key));
    return found == value.end() ? nullptr : &*found;
  }
  size_t index = 0;
  const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool is_index = failed == std::errc{} && end == key.data() + key.size();
  return value.is_array() && is_index && index < value.size() ? &value[index] : nullptr;
}

const Document& find_field(const Document& document, std::string_view path) {
  const Document* value = &document;
  for (std::string_view rest = path; !rest.empty();) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    value = child_of(*value, rest.substr(0, dot));
    if (value == nullptr) throw WrongDocument(fmt::format("there is no field {}; it has {}", path, names_of(document)));
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return *value;
}

std::string text_of(const Document& value, std::string_view path) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return json_text(value, kOneLine);
  throw WrongDocument(fmt::format("field {} is not a text or a number", path));
}

// The arguments in ('a', "b"). The text begins after the name of the filter.
std::vector<std::string> read_arguments(const std::string& where, std::string_view& text) {
  std::vector<std::string> arguments;
  if (!text.starts_with('(')) return arguments;
  const auto refuse = [&] { throw UserError("{}: expected filter('text', 'text') in {{{{...}}}}", where); };
  text.remove_prefix(1);
  for (text = trimmed(text); !text.starts_with(')'); text = trimmed(text)) {
    const char quote = text.empty() ? '\0' : text[0];
    if (quote != '\'' && quote != '"') refuse();
    const size_t end = text.find(quote, 1);
    if (end == text.npos) refuse();
    arguments.emplace_back(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    text = trimmed(text);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return arguments;
}

}  // namespace

std::string field_text(const Document& document, std::string_view path) { return text_of(find_field(document, path), path); }

std::vector<std::string> field_texts(const Document& document, std::string_view path) {
  const size_t mark = path.find("[]");
  const Document& list = find_field(document, path.substr(0, mark));
  if (!list.is_array()) throw WrongDocument(fmt::format("field {} is not a list", path.substr(0, mark)));
  std::string_view inside = mark == path.npos ? "" : path.substr(mark + 2);
  if (inside.starts_with('.')) inside.remove_prefix(1);
  std::vector<std::string> texts;
  for (const Document& element : list) texts.push_back(text_of(find_field(element, inside), path));
  return texts;
}

TextTemplate::TextTemplate(const std::string& where, std::string_view text, std::vector<TextFilter> filters)
    : filters_(std::move(filters)) {
  while (!text.empty()) {
    const size_t begin = std::min(text.find("{{"), text.size());
    if (begin > 0) parts_.push_back({.text = std::string(text.substr(0, begin)), .filters = {}});
    text.remove_prefix(begin);
    if (text.empty()) break;
    const size_t end = text.find("}}");
    if (end == text.npos) throw UserError("{}: {{{{ has no }}}} in \"{}\"", where, text);
    parts_.push_back(field(where, text.substr(2, end - 2)));
    text.remove_prefix(end + 2);
  }
}

TextTemplate::Part TextTemplate::field(const std::string& where, std::string_view inside) const {
  inside = trimmed(inside);
  const size_t bar = std::min(inside.find('|'), inside.size());
  Part part{.text = std::string(trimmed(inside.substr(0, bar))), .is_field = true, .filters = {}};
  const bool is_name = !part.text.empty() && part.text.find_first_of(" ()[]'\"{}+%:,") == std::string::npos;
  if (!is_name)
    throw UserError("{}: {{{{{}}}}} is not a field; only fields and filters can be used: {{{{field|strip}}}}", where, inside);
  for (std::string_view rest = inside.substr(bar); !rest.empty(); rest = trimmed(rest)) {
    if (!rest.starts_with('|')) throw UserError("{}: expected | before \"{}\"", where, rest);
    rest = trimmed(rest.substr(1));
    const size_t length = std::min(rest.find_first_of("(| "), rest.size());
    std::string name(rest.substr(0, length));
    rest.remove_prefix(length);
    part.filters.push_back(make_filter(where, std::move(name), read_arguments(where, rest)));
  }
  return part;
}

std::string TextTemplate::fill(const Document& document) const {
  std::string out;
  for (const Part& part : parts_) out += part.is_field ? apply_filters(part.filters, field_text(document, part.text)) : part.text;
  return apply_filters(filters_, std::move(out));
}

}  // namespace trireme
