// A recipe as written in a file: an ordered tree of YAML values that remember where they were written, so that every message
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
  using Map = std::vector<Entry>;  // in the order of the file; recipes are small, so lookup is a linear search
  enum class Kind : uint8_t { null, boolean, integer, real, string, list, map };

  Tree() = default;
  // Only from bool, int64_t, double, std::string, List or Map, without implicit conversions.
  template <class Value>
  requires requires(const std::variant<std::monostate, bool, int64_t, double, std::string, List, Map>& v) { std::get<Value>(v); }
  explicit Tree(Value value, Origin written = {}) : origin(std::move(written)), value_(std::move(value)) {}

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_list() const { return kind() == Kind::list; }
  bool is_map() const { return kind() == Kind::map; }

  // The value; the caller must have checked the kind.
  bool boolean() const { return std::get<bool>(value_); }
  int64_t integer() const { return std::get<int64_t>(value_); }
  double real() const { return std::get<double>(value_); }
  const std::string& string() const { return std::get<std::string>(value_); }
  const List& list() const { return std::get<List>(value_); }
  List& list() { return std::get<List>(value_); }
  const Map& map() const { return std::get<Map>(value_); }
  Map& map() { return std::get<Map>(value_); }

  // The value at a dotted path (a.b, or a.0 for the first of a list); nullptr if absent.
  const Tree* find(std::string_view path) const;
  Tree* find(std::string_view path);
  // Sets the value at a dotted path and creates the maps on the way. A UserError if something on the way is not a map.
  void set(std::string_view path, Tree value);
  // Returns false if there was nothing to remove.
  bool remove(std::string_view path);
  // Merges maps key by key; anything else is replaced by the value in `over`.
  void merge(Tree over);

  // A scalar as it would be written without quotes; lists and maps in brackets.
  std::string text() const;
  // The same for a message: on one line, truncated if long.
  std::string brief() const;
  // "file:line", "command line", or empty.
  std::string where() const;
  // " (file:line)" for the end of a message; empty for the command line, because the message already quotes it.
  std::string where_suffix() const;

  Origin origin;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> value_;
};

struct Tree::Entry {
  std::string key;
  Tree value;
};

// Parses an unquoted scalar: null, a boolean, a number (1e-4 is one) or a string.
Tree scalar_from_text(std::string_view text, Origin origin = {});

// The same in a YAML file, where the reference's loader reads 010 as octal and 09.5 as a number, as in YAML 1.1.
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
