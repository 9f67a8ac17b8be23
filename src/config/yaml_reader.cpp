#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/utf8.h"
#include "config/yaml.h"

namespace trireme {

namespace {

// A recipe has a few hundred values. The limits only reject files that are not recipes or are malicious.
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxNesting = 64;
constexpr size_t kMaxKey = 200;
constexpr int64_t kMaxValues = 20'000;  // aliases count as their contents

int64_t count_values(const Tree& tree) {
  int64_t count = 1;
  if (tree.is_list())
    for (const Tree& item : tree.list()) count += count_values(item);
  if (tree.is_map())
    for (const Tree::Entry& entry : tree.map()) count += count_values(entry.value);
  return count;
}

// Builds the tree while the parser runs, so that the limits apply before memory or stack is used up.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& name) : file_(std::make_shared<const std::string>(name)) {}

  Tree take_root() { return std::move(root_); }

  // The parser treats the end of the file as the end of a quoted scalar, and so loses every key after a missing quote. That
  // scalar is the last one, so only the last needs a check.
  void require_closing_quote(std::string_view text) const {
    if (last_quoted_ && !is_closed_quote(text.substr(std::min(static_cast<size_t>(last_quoted_->pos), text.size()))))
      fail(*last_quoted_, "the closing quote is missing");
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) fail(mark, "a second document starts here; a recipe is one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) fail(mark, "a key is missing before ':'");
    Tree null;
    null.origin = origin(mark);
    add(mark, anchor, std::move(null));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) fail(mark, "an alias cannot be a key");
    const auto anchored = anchored_.find(anchor);
    if (anchored == anchored_.end()) fail(mark, "an alias stands inside the value it repeats");
    values_ += count_values(anchored->second);
    add(mark, YAML::NullAnchor, anchored->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    if (text.find('\0') != std::string::npos) fail(mark, "a text cannot contain \\0; remove it");
    last_quoted_ = tag == "!" ? std::optional(mark) : std::nullopt;
    if (wants_key())
      begin_entry(mark, text);
    else if (tag == "?" || is_core_tag(tag, {"int", "float", "bool", "null"}))
      add(mark, anchor, yaml_scalar(text, origin(mark)));
    else if (tag == "!" || is_core_tag(tag, {"str"}))  // the parser marks quoted scalars with "!"
      add(mark, anchor, Tree(text, origin(mark)));
    else
      fail(mark, fmt::format("the tag {} is not supported; remove it", tag));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, anchor, Tree(Tree::List{}, origin(mark)));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, anchor, Tree(Tree::Map{}, origin(mark)));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Tree tree;
    YAML::Mark mark;
    YAML::anchor_t anchor;
    std::optional<std::string> key;  // the key of the next value
  };

  Origin origin(const YAML::Mark& mark) const { return {file_, mark.line + 1}; }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    throw UserError("{}:{}: {}", *file_, mark.line + 1, what);
  }

  static bool is_closed_quote(std::string_view text) {
    const char quote = text.empty() ? '\0' : text.front();
    if (quote != '"' && quote != '\'') return true;  // with a tag, the mark is not that of the quote
    for (size_t i = 1; i < text.size(); ++i) {
      const bool escapes = quote == '"' ? text[i] == '\\' : text.substr(i).starts_with("''");
      if (escapes)
        ++i;
      else if (text[i] == quote)
        return true;
    }
    return false;
  }

  static bool is_core_tag(const std::string& tag, std::initializer_list<std::string_view> names) {
    constexpr std::string_view kPrefix = "tag:yaml.org,2002:";
    return tag.starts_with(kPrefix) && std::ranges::find(names, std::string_view(tag).substr(kPrefix.size())) != names.end();
  }

  bool wants_key() const { return !open_.empty() && open_.back().tree.is_map() && !open_.back().key; }

  void begin_entry(const YAML::Mark& mark, const std::string& key) {
    if (key == "<<") fail(mark, "YAML merge keys (<<) are not supported; use extends: to build on another recipe");
    if (key.size() > kMaxKey || key.find('\n') != std::string::npos)
      fail(mark, "a key must be one word; is a quote or a bracket left open before it?");
    const Tree::Map& map = open_.back().tree.map();
    if (std::ranges::find(map, key, &Tree::Entry::key) != map.end()) fail(mark, fmt::format("the key {} is given twice", key));
    open_.back().key = key;
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Tree tree) {
    if (wants_key()) fail(mark, "a key must be a plain word, not a list or a map");
    if (open_.size() >= kMaxNesting) fail(mark, fmt::format("more than {} levels of nesting", kMaxNesting));
    open_.push_back({std::move(tree), mark, anchor, std::nullopt});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(done.mark, done.anchor, std::move(done.tree));
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, Tree tree) {
    if (++values_ > kMaxValues) fail(mark, fmt::format("more than {} values", kMaxValues));
    if (anchor != YAML::NullAnchor) anchored_[anchor] = tree;
    if (open_.empty()) {
      root_ = std::move(tree);
    } else if (Open& parent = open_.back(); parent.tree.is_list()) {
      parent.tree.list().push_back(std::move(tree));
    } else {
      parent.tree.map().push_back({std::move(*parent.key), std::move(tree)});
      parent.key.reset();
    }
  }

  std::shared_ptr<const std::string> file_;
  int documents_ = 0;
  int64_t values_ = 0;
  std::vector<Open> open_;  // the enclosing lists and maps, outermost first
  std::map<YAML::anchor_t, Tree> anchored_;
  std::optional<YAML::Mark> last_quoted_;  // where the last scalar starts, if it is quoted
  Tree root_;
};

void require_text(std::string_view text, const std::string& name) {
  int line = 1;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (const auto byte = static_cast<unsigned char>(c); (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f)
      throw UserError("{}:{}: not a text file (it contains the byte 0x{:02x})", name, line, byte);
  }
  const std::string_view valid = text.substr(0, valid_utf8_prefix(text));
  if (valid.size() < text.size())
    throw UserError("{}:{}: the byte 0x{:02x} is not UTF-8; save the file as UTF-8", name, 1 + std::ranges::count(valid, '\n'),
                    static_cast<unsigned char>(text[valid.size()]));
}

}  // namespace

Tree read_yaml(std::string_view text, const std::string& name) {
  if (text.size() > kMaxBytes) throw UserError("{}:1: larger than {} bytes, too large for a recipe", name, kMaxBytes);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the byte order mark of UTF-8
  require_text(text, name);
  TreeBuilder builder(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    builder.require_closing_quote(text);
  } catch (const YAML::Exception& error) {
    throw UserError("{}:{}: not valid YAML: {}", name, error.mark.line + 1, error.msg);
  }
  return builder.take_root();
}

Tree read_yaml_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw UserError("{}:1: a folder, not a recipe file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError("{}:1: cannot be opened: {}", path, std::strerror(errno));
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) throw UserError("{}:1: cannot be read: {}", path, std::strerror(errno));
  return read_yaml(text, path);
}

}  // namespace trireme
