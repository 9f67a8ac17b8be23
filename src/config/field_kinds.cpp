#include "config/field_kinds.h"

#include <array>

namespace trireme {

namespace {

constexpr std::array<int64_t, 4> kSecondsOf = {86400, 3600, 60, 1};  // DD, HH, MM, SS

}  // namespace

double read_duration(const Tree& value) {
  if (value.is_null()) return 0;
  const BadValue bad{"expected DD:HH:MM:SS, for example 00:04:00:00 for four hours"};
  if (!value.is_string()) throw bad;
  std::string_view rest = value.string();
  int64_t seconds = 0;
  for (size_t part = 0; part < kSecondsOf.size(); ++part) {
    const size_t colon = rest.find(':');
    const std::string_view digits = rest.substr(0, colon);
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string_view::npos) throw bad;
    seconds += std::stoll(std::string(digits)) * kSecondsOf[part];
    if ((colon == std::string_view::npos) != (part + 1 == kSecondsOf.size())) throw bad;
    if (colon != std::string_view::npos) rest.remove_prefix(colon + 1);
  }
  return static_cast<double>(seconds);
}

std::string duration_text(double seconds) {
  const auto total = static_cast<int64_t>(seconds);
  return fmt::format("{:02}:{:02}:{:02}:{:02}", total / 86400, total / 3600 % 24, total / 60 % 60, total % 60);
}

std::vector<std::string> read_text_list(const Tree& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return {value.string()};
  if (!value.is_list()) throw BadValue{"expected a list such as [a, b]"};
  std::vector<std::string> items;
  for (const Tree& item : value.list()) {
    if (item.is_list() || item.is_map() || item.is_null()) throw BadValue{"expected a list of text, not of lists or maps"};
    items.push_back(item.text());
  }
  return items;
}

Tree text_list_tree(const std::vector<std::string>& items) {
  Tree::List list;
  for (const std::string& item : items) list.push_back(Tree(std::string(item)));
  return Tree(std::move(list));
}

SplitTexts read_split_lists(const Tree& value) {
  SplitTexts lists;
  if (!value.is_map()) {
    lists.train = read_text_list(value);
    return lists;
  }
  for (const Tree::Entry& entry : value.map()) {
    if (entry.key == "train")
      lists.train = read_text_list(entry.value);
    else if (entry.key == "validation")
      lists.validation = read_text_list(entry.value);
    else if (entry.key == "test")
      lists.test = read_text_list(entry.value);
    else
      throw BadValue{fmt::format("expected train, validation and test, not {}", entry.key)};
  }
  return lists;
}

Tree split_lists_tree(const SplitTexts& lists) {
  if (lists.validation.empty() && lists.test.empty()) return text_list_tree(lists.train);
  return Tree(Tree::Map{{"train", text_list_tree(lists.train)},
                        {"validation", text_list_tree(lists.validation)},
                        {"test", text_list_tree(lists.test)}});
}

std::vector<int64_t> read_integer_list(const Tree& value, const IntegerRange& range) {
  if (value.is_null()) return {};
  if (!value.is_list()) throw BadValue{"expected a list of integers such as [1, 2]"};
  std::vector<int64_t> items;
  for (const Tree& item : value.list()) items.push_back(read_integer(item, range));
  return items;
}

std::pair<double, double> read_real_pair(const Tree& value, const RealRange& range) {
  if (!value.is_list() || value.list().size() != 2) throw BadValue{"expected a list of two numbers such as [0.9, 0.95]"};
  return {read_real(value.list()[0], range), read_real(value.list()[1], range)};
}

}  // namespace trireme
