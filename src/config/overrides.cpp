#include "config/overrides.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace trireme {

namespace {

constexpr int kMaxBrackets = 32;

// Reads the value of one override. An unquoted word ends at the character that ends it in its context, so a path or a sentence at
// the top level needs no quotes.
class ValueReader {
 public:
  ValueReader(std::string_view override_text, std::string_view value)
      : override_(override_text), rest_(value), origin_{std::make_shared<const std::string>("command line"), 0} {}

  Tree read() {
    if (trimmed(rest_).empty()) return Tree(std::string{}, origin_);
    Tree value = read_value("", 0);
    skip_spaces();
    if (!rest_.empty()) fail(fmt::format("nothing may follow the value, but '{}' does", rest_));
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw UserError("{}: {}", override_, what); }

  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Tree read_value(std::string_view terminators, int depth) {
    if (depth > kMaxBrackets) fail(fmt::format("more than {} levels of brackets", kMaxBrackets));
    skip_spaces();
    if (take('[')) return read_list(depth);
    if (take('{')) return read_map(depth);
    if (!rest_.empty() && (rest_.front() == '\'' || rest_.front() == '"')) return Tree(read_quoted(), origin_);
    const std::string_view word = read_word(terminators);
    if (word.empty()) fail("a value is missing");
    return scalar_from_text(word, origin_);
  }

  Tree read_list(int depth) {
    Tree::List items;
    if (take(']')) return Tree(std::move(items), origin_);
    do {
      items.push_back(read_value(",]", depth + 1));
    } while (take(','));
    if (!take(']')) fail("a list must end with ]");
    return Tree(std::move(items), origin_);
  }

  Tree read_map(int depth) {
    Tree::Map entries;
    if (take('}')) return Tree(std::move(entries), origin_);
    do {
      const std::string key(read_word(":,}"));
      if (key.empty() || !take(':')) fail("a map must be written {key: value, ...}");
      if (std::ranges::find(entries, key, &Tree::Entry::key) != entries.end())
        fail(fmt::format("the key {} is given twice", key));
      entries.push_back({key, read_value(",}", depth + 1)});
    } while (take(','));
    if (!take('}')) fail("a map must end with }");
    return Tree(std::move(entries), origin_);
  }

  std::string read_quoted() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
      if (rest_.front() == '\\' && rest_.size() > 1 && (rest_[1] == quote || rest_[1] == '\\')) rest_.remove_prefix(1);
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) fail(fmt::format("the closing {} is missing", quote));
    rest_.remove_prefix(1);
    return text;
  }

  // Terminators inside an interpolation, as in ${multiply:2,3}, belong to the word.
  std::string_view read_word(std::string_view terminators) {
    size_t end = 0;
    int open_interpolations = 0;
    for (; end < rest_.size(); ++end) {
      if (rest_.substr(end).starts_with("${")) ++open_interpolations;
      if (open_interpolations == 0 && terminators.find(rest_[end]) != std::string_view::npos) break;
      if (open_interpolations > 0 && rest_[end] == '}') --open_interpolations;
    }
    const std::string_view word = trimmed(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return word;
  }

  std::string_view override_, rest_;
  Origin origin_;
};

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void require_key(std::string_view key, std::string_view override_text) {
  const auto is_key_character = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./@").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const bool has_empty_part =
      key.empty() || key.starts_with('.') || key.ends_with('.') || key.find("..") != std::string_view::npos;
  if (has_empty_part || !std::ranges::all_of(key, is_key_character))
    throw UserError("{}: '{}' is not a key; write for example trainer.max_steps=100", override_text, key);
}

}  // namespace

Override parse_override(std::string_view text) {
  require_utf8(text, std::string(text));
  Override change;
  change.text = text;
  std::string_view rest = text;
  if (take_prefix(rest, "++"))
    change.action = Override::Action::set_or_add;
  else if (take_prefix(rest, "+"))
    change.action = Override::Action::add;
  else if (take_prefix(rest, "~"))
    change.action = Override::Action::remove;

  const size_t equals = rest.find('=');
  const bool has_value = equals != std::string_view::npos;
  change.key = trimmed(rest.substr(0, equals));
  require_key(change.key, text);
  if (change.action == Override::Action::remove) {
    if (has_value) throw UserError("{}: a removal takes no value; write ~{}", text, change.key);
    return change;
  }
  if (!has_value) throw UserError("{}: a value is missing; write {}=VALUE", text, text);
  change.value = ValueReader(text, rest.substr(equals + 1)).read();
  return change;
}

Tree parse_value(std::string_view text) { return ValueReader(text, text).read(); }

void apply_override(Tree& recipe, const Override& change) {
  Tree* present = recipe.find(change.key);
  switch (change.action) {
    case Override::Action::remove:
      if (!recipe.remove(change.key)) throw UserError("{}: the recipe has no {} to remove", change.text, change.key);
      return;
    case Override::Action::add:
      if (present != nullptr)
        throw UserError("{}: {} is already there ({}); use {}={} to change it", change.text, change.key, present->text(),
                        change.key, change.value.text());
      break;
    case Override::Action::set:
    case Override::Action::set_or_add:
      break;
  }
  if (present != nullptr)
    present->merge(change.value);
  else
    recipe.set(change.key, change.value);
}

}  // namespace trireme
