// How settings are described. A setting is one row: its key, what it accepts, a line of help, and how it is read from and written
// to a tree. settings_fields.cpp has the rows. Reading a recipe, printing the resolved one and the help text all iterate over
// them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/tree.h"

namespace trireme {

// Why a value is not acceptable. The caller, which knows the full key, turns it into a UserError.
struct BadValue {
  std::string reason;
};

template <class Struct>
struct Row {
  std::string key;
  std::string type;  // in one word
  std::string accepts;
  std::string help;
  std::function<void(Struct&, const Tree&)> read;  // throws BadValue
  std::function<Tree(const Struct&)> write;
};

// The limits of a number, both inclusive unless stated otherwise. `null` is the number that null means, if null is allowed. If
// that number is 0, it is written back as null.
struct IntegerRange {
  int64_t least, most;
  std::optional<int64_t> null = std::nullopt;
  std::string text() const;
};

enum class Most : uint8_t { included, excluded };

struct RealRange {
  double least, most;
  Most end = Most::included;
  std::optional<double> null = std::nullopt;
  std::string text() const;
};

template <class Enum>
struct Choice {
  std::string name;  // "null" is the YAML null
  Enum value;
};

int64_t read_integer(const Tree& value, const IntegerRange& range);
// For keys that also take other kinds of values.
int64_t read_integer(const Tree& value, const IntegerRange& range, const std::string& accepts);
double read_real(const Tree& value, const RealRange& range);
bool read_boolean(const Tree& value);
std::string read_text(const Tree& value);
std::string join_names(const std::vector<std::string>& names);  // "a, b or c"

template <class Struct, class Integer>
Row<Struct> integer(std::string key, Integer Struct::*member, IntegerRange range, std::string help) {
  return {std::move(key),
          "integer",
          range.text(),
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = static_cast<Integer>(read_integer(value, range)); },
          [=](const Struct& s) {
            const auto number = static_cast<int64_t>(s.*member);
            return number == 0 && range.null == 0 ? Tree{} : Tree(number);
          }};
}

template <class Struct>
Row<Struct> real(std::string key, double Struct::*member, RealRange range, std::string help) {
  return {std::move(key),
          "number",
          range.text(),
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_real(value, range); },
          [=](const Struct& s) { return s.*member == 0 && range.null == 0 ? Tree{} : Tree(s.*member); }};
}

template <class Struct>
Row<Struct> boolean(std::string key, bool Struct::*member, std::string help) {
  return {std::move(key),
          "boolean",
          "true or false",
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = read_boolean(value); },
          [=](const Struct& s) { return Tree(bool{s.*member}); }};
}

// Free text; a null value means `null`.
template <class Struct>
Row<Struct> text(std::string key, std::string Struct::*member, const std::string& null, std::string help) {
  return {std::move(key),
          "text",
          "text or null",
          std::move(help),
          [=](Struct& s, const Tree& value) { s.*member = value.is_null() ? null : read_text(value); },
          [=](const Struct& s) { return s.*member == null && null.empty() ? Tree{} : Tree(std::string(s.*member)); }};
}

// One of several names for the values of an enum. The first name of a value is the one that is written.
template <class Struct, class Enum>
Row<Struct> choice(std::string key, Enum Struct::*member, std::vector<Choice<Enum>> choices, std::string help) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const Choice<Enum>& option : choices) names.push_back(option.name);
  const std::string accepts = join_names(names);
  return {std::move(key),
          "choice",
          accepts,
          std::move(help),
          [=](Struct& s, const Tree& value) {
            for (const Choice<Enum>& option : choices) {
              if (option.name != value.text()) continue;
              s.*member = option.value;
              return;
            }
            throw BadValue{"expected " + accepts};
          },
          [=](const Struct& s) {
            for (const Choice<Enum>& option : choices)
              if (option.value == s.*member) return scalar_from_text(option.name);
            return Tree{};
          }};
}

// Rejects certain values with a better reason than "not in the list".
template <class Struct>
Row<Struct> refuse(Row<Struct> row, const std::vector<std::string>& values, const std::string& reason) {
  row.read = [=, read = std::move(row.read)](Struct& s, const Tree& value) {
    for (const std::string& refused : values)
      if (value.text() == refused) throw BadValue{reason};
    read(s, value);
  };
  return row;
}

// Appends the rows of a part to the rows of the whole, with `prefix` before their keys. `part_of` returns the part of a whole.
template <class Whole, class Part, class PartOf>
void mount(std::vector<Row<Whole>>& whole, const std::string& prefix, const std::vector<Row<Part>>& part, PartOf part_of) {
  for (const Row<Part>& row : part) {
    whole.push_back({prefix + row.key, row.type, row.accepts, row.help,
                     [=, read = row.read](Whole& w, const Tree& value) { read(part_of(w), value); },
                     [=, write = row.write](const Whole& w) { return write(part_of(w)); }});
  }
}

template <class Struct>
void append(std::vector<Row<Struct>>& rows, std::vector<Row<Struct>> more) {
  for (Row<Struct>& row : more) rows.push_back(std::move(row));
}

}  // namespace trireme
