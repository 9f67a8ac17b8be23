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
std::vector<int64_t> read_integer_list(const Tree& value, const IntegerRange& range);
std::pair<double, double> read_real_pair(const Tree& value, const RealRange& range);

// Seconds, written DD:HH:MM:SS; null is 0.
template <class Struct>
Row<Struct> duration(std::string key, double Struct::*member, std::string help) {
  return {std::move(key), "DD:HH:MM:SS or null", std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_duration(value); },
          [=](const Struct& s) { return s.*member == 0 ? Tree{} : Tree(duration_text(s.*member)); }};
}

// A number of batches. NeMo takes a real number here for a share of the dataset: 1 is one batch and 1.0 is all of them.
template <class Struct>
Row<Struct> batch_count(std::string key, int64_t Struct::*member, IntegerRange range, std::string help) {
  Row<Struct> row = integer(std::move(key), member, range, std::move(help));
  row.read = [read = std::move(row.read)](Struct& s, const Tree& value) {
    if (value.kind() == Tree::Kind::real && value.real() != 0)
      throw BadValue{"a share of the dataset is not supported; give a whole number"};
    read(s, value);
  };
  return row;
}

// A list of words; one word alone is a list of one; null is the empty list.
template <class Struct>
Row<Struct> text_list(std::string key, std::vector<std::string> Struct::*member, std::string help) {
  return {std::move(key), "a list of text", std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_text_list(value); },
          [=](const Struct& s) {
            Tree::List items;
            for (const std::string& item : s.*member) items.push_back(Tree(std::string(item)));
            return Tree(std::move(items));
          }};
}

template <class Struct>
Row<Struct> integer_list(std::string key, std::vector<int64_t> Struct::*member, IntegerRange range, std::string help) {
  return {std::move(key), "a list of integers or null", std::move(help),
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
  return {std::move(key), "a list of two numbers", std::move(help),
          [=](Struct& s, const Tree& value) { std::tie(s.*first, s.*second) = read_real_pair(value, range); },
          [=](const Struct& s) {
            return Tree(Tree::List{Tree(s.*first), Tree(s.*second)});
          }};
}

}  // namespace trireme
