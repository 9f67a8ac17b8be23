#include "convert/torch/pickle.h"

#include <bit>
#include <unordered_map>

#include "base/json.h"
#include "convert/torch/pickle_globals.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

// Each takes a byte of the file or more, and 72 bytes of memory. A checkpoint of 175B parameters on 1024 ranks has some millions.
constexpr size_t kMaxValues = size_t{1} << 24;
constexpr size_t kMaxPickleBytes = size_t{1} << 28;

using Kind = PickleValue::Kind;

}  // namespace

// The stack machine of the format, see Python's pickletools. Every opcode makes at most a few values, so the work is bounded by
// the length of the input.
class PickleReader {
 public:
  PickleReader(Pickle& to, const ByteView& file, uint64_t begin) : to_(to), file_(file), at_(begin) {}

  void read() {
    const uint64_t begin = at_;
    while (true) {
      if (at_ - begin > kMaxPickleBytes) throw Failure("{}: its pickle is longer than {} bytes", file_.where, kMaxPickleBytes);
      const auto opcode = static_cast<uint8_t>(number(1));
      if (opcode == '.') break;
      step(opcode);
    }
    to_.root_ = pop();
    to_.end_ = at_;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Failure("{}: damaged: {} at byte {} of its pickle", file_.where, what, at_);
  }

  uint64_t number(uint64_t bytes) {
    if (!file_.has(at_, bytes)) fail("the end is missing");
    const uint64_t value = file_.number(at_, bytes);
    at_ += bytes;
    return value;
  }

  std::string_view text(uint64_t length) {
    if (!file_.has(at_, length)) fail("a text goes beyond the end");
    const std::string_view found = file_.text().substr(at_, length);
    at_ += length;
    return found;
  }

  std::string_view line() {
    const size_t end = file_.text().find('\n', at_);
    if (end == std::string_view::npos) fail("a line has no end");
    const std::string_view found = text(end - at_);
    at_ += 1;
    return found;
  }

  PickleValue* make(Kind kind) {
    if (to_.values_.size() >= kMaxValues) throw Failure("{}: its pickle has more than {} values", file_.where, kMaxValues);
    PickleValue& value = to_.values_.emplace_back();
    value.kind = kind;
    return &value;
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(Kind kind, int64_t value) {
    PickleValue* made = make(kind);
    made->integer = value;
    push(made);
  }
  void push_text(Kind kind, std::string_view value) {
    PickleValue* made = make(kind);
    made->text = value;
    push(made);
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* pop() {
    if (stack_.size() <= floor()) fail("the stack is empty");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    if (stack_.size() <= floor()) fail("the stack is empty");
    return stack_.back();
  }
  // Removes the values after the last mark, and the mark.
  PickleValue::Items pop_marked() {
    if (marks_.empty()) fail("a mark is missing");
    const size_t begin = marks_.back();
    marks_.pop_back();
    PickleValue::Items items(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return items;
  }
  void push_items(Kind kind, PickleValue::Items items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict has a key without a value");
    PickleValue* made = make(kind);
    made->items = std::move(items);
    push(made);
  }
  void push_tuple(size_t count) {
    PickleValue::Items items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::tuple, std::move(items));
  }

  // The list, dict or set that items are added to. An OrderedDict is an object whose items go to its state.
  PickleValue* container(Kind kind) {
    PickleValue* value = top();
    if (value->is(kind)) return value;
    if (!value->is(Kind::object)) fail("items are added to a value that has none");
    auto& of_object = contents_[value];
    if (of_object == nullptr) of_object = make(kind);
    if (!of_object->is(kind)) fail("items of two kinds are added to one value");
    if (value->state == nullptr) value->state = of_object;
    return of_object;
  }
  void add(Kind kind, const PickleValue::Items& items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict has a key without a value");
    PickleValue* to = container(kind);
    to->items.insert(to->items.end(), items.begin(), items.end());
  }

  void push_global(std::string_view module, std::string_view name) {
    std::string joined = std::string(module) + "." + std::string(name);
    if (!is_accepted_global(joined))
      throw UserError("{}: names {}, which is not part of a checkpoint of a GPT model; the file is not read", file_.where,
                      json_excerpt(joined));
    push_text(Kind::global, to_.texts_.emplace_back(std::move(joined)));
  }

  void push_object(PickleValue* type, PickleValue* arguments) {
    if (!type->is(Kind::global) && !type->is(Kind::object)) fail("something that is not a class is called");
    if (!arguments->is(Kind::tuple)) fail("the arguments of an object are not a tuple");
    PickleValue* made = make(Kind::object);
    made->type = type;
    made->items = arguments->items;
    // Sharing must not multiply memory: the copies count as values.
    copied_ += made->items.size();
    if (copied_ > kMaxValues) throw Failure("{}: its pickle has more than {} arguments", file_.where, kMaxValues);
    push(made);
  }

  void push_long(uint64_t bytes) {
    const std::string_view digits = text(bytes);
    if (bytes > 8) return push_text(Kind::bytes, digits);  // a number that no setting has: the state of a random generator
    uint64_t value = bytes > 0 && (static_cast<uint8_t>(digits.back()) & 0x80) != 0 ? ~uint64_t{0} : 0;
    for (size_t i = digits.size(); i-- > 0;) value = (value << 8) | static_cast<uint8_t>(digits[i]);
    push_integer(Kind::integer, static_cast<int64_t>(value));
  }

  void push_real() {
    PickleValue* made = make(Kind::real);
    made->real = std::bit_cast<double>(__builtin_bswap64(number(8)));
    push(made);
  }

  void put(uint64_t index) { memo_[index] = top(); }
  void get(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("a value that was not kept is fetched");
    if (++fetched_ > kMaxPickleBytes) fail("too many values");
    push(found->second);
  }

  void build() {
    PickleValue* state = pop();
    PickleValue* object = top();
    if (!object->is(Kind::object)) fail("a value that is not an object has attributes");
    if (object->state == nullptr) object->state = state;
  }

  void step(uint8_t opcode);

  Pickle& to_;
  const ByteView& file_;
  uint64_t at_ = 0, copied_ = 0, fetched_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  std::unordered_map<const PickleValue*, PickleValue*> contents_;  // items of objects
};

void PickleReader::step(uint8_t opcode) {
  switch (opcode) {
    case 0x80:  // PROTO
      if (number(1) > 5) fail("the pickle protocol is newer than 5");
      return;
    case 0x95:  // FRAME
      number(8);
      return;
    case '(':
      if (marks_.size() >= kMaxValues) fail("too many marks");
      return marks_.push_back(stack_.size());
    case '0':  // POP
      if (!marks_.empty() && stack_.size() == marks_.back())
        marks_.pop_back();
      else
        pop();
      return;
    case '1':
      pop_marked();
      return;
    case 'N':
      return push(make(Kind::none));
    case 0x88:
    case 0x89:
      return push_integer(Kind::boolean, opcode == 0x88 ? 1 : 0);
    case 'K':
      return push_integer(Kind::integer, static_cast<int64_t>(number(1)));
    case 'M':
      return push_integer(Kind::integer, static_cast<int64_t>(number(2)));
    case 'J':
      return push_integer(Kind::integer, static_cast<int32_t>(static_cast<uint32_t>(number(4))));
    case 0x8a:
      return push_long(number(1));
    case 0x8b:
      return push_long(number(4));
    case 'G':
      return push_real();
    case 'U':
    case 0x8c:
      return push_text(Kind::text, text(number(1)));
    case 'T':
    case 'X':
      return push_text(Kind::text, text(number(4)));
    case 0x8d:
      return push_text(Kind::text, text(number(8)));
    case 'C':
      return push_text(Kind::bytes, text(number(1)));
    case 'B':
      return push_text(Kind::bytes, text(number(4)));
    case 0x8e:
    case 0x96:
      return push_text(Kind::bytes, text(number(8)));
    case ']':
      return push(make(Kind::list));
    case ')':
      return push(make(Kind::tuple));
    case '}':
      return push(make(Kind::dict));
    case 0x8f:
      return push(make(Kind::set));
    case 'a': {
      PickleValue* item = pop();
      return add(Kind::list, {item});
    }
    case 'e':
      return add(Kind::list, pop_marked());
    case 's': {
      PickleValue* value = pop();
      PickleValue* key = pop();
      return add(Kind::dict, {key, value});
    }
    case 'u':
      return add(Kind::dict, pop_marked());
    case 0x90:
      return add(Kind::set, pop_marked());
    case 'l':
      return push_items(Kind::list, pop_marked());
    case 't':
      return push_items(Kind::tuple, pop_marked());
    case 'd':
      return push_items(Kind::dict, pop_marked());
    case 0x91:
      return push_items(Kind::set, pop_marked());
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(opcode - 0x84u);
    case 'c': {
      const std::string_view module = line();
      return push_global(module, line());
    }
    case 0x93: {  // STACK_GLOBAL
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      if (!name->is(Kind::text) || !module->is(Kind::text)) fail("a class without a name");
      return push_global(module->text, name->text);
    }
    case 'R':
    case 0x81: {  // REDUCE, NEWOBJ
      PickleValue* arguments = pop();
      return push_object(pop(), arguments);
    }
    case 0x92: {  // NEWOBJ_EX: with named arguments, which no class here has
      pop();
      PickleValue* arguments = pop();
      return push_object(pop(), arguments);
    }
    case 'b':
      return build();
    case 'q':
      return put(number(1));
    case 'r':
      return put(number(4));
    case 0x94:
      return put(memo_.size());
    case 'h':
      return get(number(1));
    case 'j':
      return get(number(4));
    case 'Q':
      return push_items(Kind::persistent, {pop()});
    default:
      throw UserError("{}: opcode 0x{:02x} at byte {} of its pickle is not one that checkpoints have; the file is not read",
                      file_.where, opcode, at_ - 1);
  }
}

Pickle::Pickle(const ByteView& file, uint64_t begin) { PickleReader(*this, file, begin).read(); }

const PickleValue* PickleValue::dict() const {
  if (is(Kind::dict)) return this;
  if (!is(Kind::object) || state == nullptr) return nullptr;
  if (state->is(Kind::dict)) return state;
  // Objects with slots have a pair: attributes, and slots.
  if (state->is(Kind::tuple) && state->items.size() == 2 && state->items[0]->is(Kind::dict)) return state->items[0];
  return nullptr;
}

const PickleValue* PickleValue::find(std::string_view key) const {
  const PickleValue* in = dict();
  if (in == nullptr) return nullptr;
  for (size_t i = in->items.size() & ~size_t{1}; i >= 2; i -= 2)  // the last value given for a key holds
    if (in->items[i - 2]->is(Kind::text) && in->items[i - 2]->text == key) return in->items[i - 1];
  return nullptr;
}

}  // namespace trireme
