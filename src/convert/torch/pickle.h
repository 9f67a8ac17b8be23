// Python's pickle format, as a tree of inert values. No code is ever run: a class is its name, and an object is its class with
// the arguments and state that the file has for it. Only classes that checkpoints of GPT models are made of are accepted.
//
// Memory is bounded by the size of the input: values share what the file shares, texts are views of its bytes, and the number of
// values is limited.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "convert/torch/byte_view.h"

namespace trireme {

struct PickleValue {
  enum class Kind : uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict, set, global, object, persistent };
  using Items = std::vector<const PickleValue*>;

  Kind kind = Kind::none;
  union {
    int64_t integer = 0;  // of integer and boolean
    double real;
  };
  std::string_view text;               // of text and bytes; of global: its name, "collections.OrderedDict"
  Items items;                         // of list, tuple, set; of dict: key, value, key, value; of persistent: the id
  const PickleValue* type = nullptr;   // of object: the class or function
  const PickleValue* state = nullptr;  // of object: its attributes; nullptr: none. `items` are the arguments

  bool is(Kind asked) const { return kind == asked; }
  bool is_global(std::string_view name) const { return kind == Kind::global && text == name; }
  bool is_object_of(std::string_view name) const { return kind == Kind::object && type->is_global(name); }

  // The value of a key of a dict, an OrderedDict, or an attribute of an object; nullptr: there is none.
  const PickleValue* find(std::string_view key) const;
  // The dict in a dict, in an OrderedDict, or of an object's attributes; nullptr: the value has none.
  const PickleValue* dict() const;
};

// The values of one pickle. They live as long as this, and their texts as long as the file.
class Pickle {
 public:
  // Reads one pickle from `begin` on. Failure for bytes that are not a pickle. UserError for a class or an opcode that is
  // refused.
  explicit Pickle(const ByteView& file, uint64_t begin = 0);

  const PickleValue& root() const { return *root_; }
  const std::deque<PickleValue>& values() const { return values_; }
  uint64_t end() const { return end_; }  // where the bytes after the pickle begin

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  std::deque<std::string> texts_;  // names of classes, joined
  const PickleValue* root_ = nullptr;
  uint64_t end_ = 0;
};

}  // namespace trireme
