// A recipe as it stands in a file: an ordered tree of YAML values that remember where they were written, so that every message
// about one can name its file and line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme {

// Where a value was written. Values made by the program have no file; values of the command line have no line.
struct Origin {
  std::shared_ptr<const std::string> file;
  int line = 0;
};

class Tree {
 public:
  struct Entry;
  using List = std::vector<Tree>;
  using Map = std::vector<Entry>;  // in the order of the file; recipes are small, so a search is a loop
  enum class Kind : uint8_t { null, boolean, integer, real, string, list, map };

  Tree() = default;
  // From bool, int64_t, double, std::string, List or Map, and nothing that merely converts to one of them.
  template <class Value>
  requires requires(const std::variant<std::monostate, bool, int64_t, double, std::string, List, Map>& v) { std::get<Value>(v); }
  explicit Tree(Value value, Origin written = {}) : origin(std::move(written)), value_(std::move(value)) {}

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_map() const { return kind() == Kind::map; }

  // The value; the kind must be right.
  bool boolean() const { return std::get<bool>(value_); }
  int64_t integer() const { return std::get<int64_t>(value_); }
  double real() const { return std::get<double>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }
  const List& list() const { return std::get<List>(value_); }
  List& list() { return std::get<List>(value_); }
  const Map& map() const { return std::get<Map>(value_); }
  Map& map() { return std::get<Map>(value_); }

  // The value at a dotted path (a.b, or a.0 for the first of a list); nullptr if it is not there.
  const Tree* find(std::string_view path) const;
  Tree* find(std::string_view path);
  // Puts a value at a dotted path and makes the maps on the way. A UserError if something on the way is not a map.
  void set(std::string_view path, Tree value);
  // False if there was nothing to remove.
  bool remove(std::string_view path);
  // Maps are joined key by key; anything else is replaced by what `over` has.
  void merge(Tree over);

  // A scalar as it would be written without quotes; lists and maps in brackets.
  std::string text() const;
  // The same for a message: on one line, and cut when it is long.
  std::string brief() const;
  // "file:line", "command line", or empty.
  std::string where() const;
  // " (file:line)" for the end of a message; empty for the command line, where the message already quotes what was typed.
  std::string where_suffix() const;

  Origin origin;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> value_;
};

struct Tree::Entry {
  std::string key;
  Tree value;
};

// What an unquoted scalar means: null, a boolean, a number (1e-4 is one) or a string.
Tree scalar_from_text(std::string_view text, Origin origin = {});

// The same in a YAML file, where the reference's loader takes 010 for octal and 09.5 for a number, as YAML 1.1 has it.
Tree yaml_scalar(std::string_view text, Origin origin = {});

// The shortest text that reads back as this number, and as a real: 3.0, 0.0001, 1e-08, .inf.
std::string real_text(double value);

// Splits a dotted path at its first dot: the first key, and the rest (empty at the end).
struct PathStep {
  std::string_view key, rest;
};
PathStep split_path(std::string_view path);
std::string join_path(std::string_view path, std::string_view key);

}  // namespace trireme
