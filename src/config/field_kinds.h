// Rows for settings that are more than one number, flag or word.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace trireme {

double read_duration(const Tree& value);  // DD:HH:MM:SS -> seconds
std::string duration_text(double seconds);
std::vector<std::string> read_text_list(const Tree& value);
Tree text_list_tree(const std::vector<std::string>& items);
struct SplitTexts {
  std::vector<std::string> train, validation, test;
};
SplitTexts read_split_lists(const Tree& value);
Tree split_lists_tree(const SplitTexts& lists);
std::vector<int64_t> read_integer_list(const Tree& value, const IntegerRange& range);
std::pair<double, double> read_real_pair(const Tree& value, const RealRange& range);

// Seconds, written DD:HH:MM:SS; null is 0.
template <class Struct>
Row<Struct> duration(std::string key, double Struct::*member, std::string help) {
  return {std::move(key),
          "duration",
          "DD:HH:MM:SS or null",
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_duration(value); },
          [=](const Struct& s) { return s.*member == 0 ? Tree{} : Tree(duration_text(s.*member)); }};
}

// A count or a share in one key, as in Lightning: a whole number is a count, a real number up to 1.0 is a share of the whole. One
// of the two members holds it; the other is 0.
template <class Struct>
Row<Struct> count_or_share(std::string key, int64_t Struct::*count, double Struct::*share, IntegerRange range, std::string help) {
  const std::string accepts = fmt::format("{}, or a share from 0.0 to 1.0", range.text());
  return {std::move(key),
          "number",
          accepts,
          std::move(help),
          [=](Struct& s, const Tree& value) {
            const bool is_share = value.kind() == Tree::Kind::real && value.real() <= 1;
            if (is_share && value.real() < 0) throw BadValue{"expected " + accepts};
            s.*share = is_share ? value.real() : 0;
            s.*count = is_share ? 0 : read_integer(value, range, accepts);
          },
          [=](const Struct& s) {
            if (s.*share != 0) return Tree(s.*share);
            return s.*count == 0 && range.null == 0 ? Tree{} : Tree(s.*count);
          }};
}

// The same for keys where only the share 1.0, the whole, is useful.
template <class Struct>
Row<Struct> whole_or_count(std::string key, int64_t Struct::*count, IntegerRange range, std::string help) {
  Row<Struct> row = integer(std::move(key), count, range, std::move(help));
  row.accepts += ", or 1.0";
  row.read = [=, accepts = row.accepts](Struct& s, const Tree& value) {
    const bool is_all = value.kind() == Tree::Kind::real && value.real() == 1;
    s.*count = is_all ? 0 : read_integer(value, range, accepts);
  };
  return row;
}

// A list of words; one word alone is a list of one; null is the empty list.
template <class Struct>
Row<Struct> text_list(std::string key, std::vector<std::string> Struct::*member, std::string help) {
  return {std::move(key),
          "list",
          "a list of text",
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_text_list(value); },
          [=](const Struct& s) { return text_list_tree(s.*member); }};
}

// One list for everything, or {train: [...], validation: [...], test: [...]} for the three members in turn.
template <class Struct>
struct SplitLists {
  std::vector<std::string> Struct::*train;
  std::vector<std::string> Struct::*validation;
  std::vector<std::string> Struct::*test;
};

template <class Struct>
Row<Struct> split_lists(std::string key, SplitLists<Struct> members, std::string help) {
  return {std::move(key),
          "list",
          "a list of text, or {train, validation, test}",
          std::move(help),
          [=](Struct& s, const Tree& value) {
            const SplitTexts lists = read_split_lists(value);
            s.*members.train = lists.train, s.*members.validation = lists.validation, s.*members.test = lists.test;
          },
          [=](const Struct& s) {
            return split_lists_tree({s.*members.train, s.*members.validation, s.*members.test});
          }};
}

template <class Struct>
Row<Struct> integer_list(std::string key, std::vector<int64_t> Struct::*member, IntegerRange range, std::string help) {
  return {std::move(key),
          "list",
          "a list of integers or null",
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_integer_list(value, range); },
          [=](const Struct& s) {
            if ((s.*member).empty()) return Tree{};
            Tree::List items;
            for (const int64_t item : s.*member) items.push_back(Tree(item));
            return Tree(std::move(items));
          }};
}

// Two numbers in one key: [first, second].
template <class Struct>
Row<Struct> real_pair(std::string key, double Struct::*first, double Struct::*second, RealRange range, std::string help) {
  return {std::move(key),
          "list",
          "a list of two numbers",
          std::move(help),
          [=](Struct& s, const Tree& value) { std::tie(s.*first, s.*second) = read_real_pair(value, range); },
          [=](const Struct& s) {
            return Tree(Tree::List{Tree(s.*first), Tree(s.*second)});
          }};
}

}  // namespace trireme
