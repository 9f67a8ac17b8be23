#include "config/interpolation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/known_keys.h"
#include "config/overrides.h"

namespace trireme {

namespace {

constexpr size_t kMaxChain = 100;            // length of a chain of references
constexpr size_t kMaxExpansion = 1'000'000;  // total characters and values that replace references

// The position after the } that closes the reference opened before `begin`.
size_t end_of_reference(std::string_view text, size_t begin) {
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${")) ++depth;
    if (text[i] == '}' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

// Splits at commas outside of brackets and quotes.
std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> arguments;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote && text[i - 1] != '\\') quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      arguments.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  arguments.push_back(text.substr(begin));
  return arguments;
}

// a[0].b[c] is a.0.b.c.
std::string with_dots(std::string_view target) {
  std::string dotted;
  for (const char c : target)
    if (c == '[')
      dotted += dotted.empty() || dotted.ends_with('.') ? "" : ".";
    else if (c != ']')
      dotted += c;
  return dotted;
}

// A value inside a longer text, as Python prints it: None, True, [1, 'a'].
std::string python_text(const Tree& value, bool is_inside = false) {
  std::string items;
  const auto add = [&](const std::string& item) { items += (items.empty() ? "" : ", ") + item; };
  switch (value.kind()) {
    case Tree::Kind::null:
      return "None";
    case Tree::Kind::boolean:
      return value.boolean() ? "True" : "False";
    case Tree::Kind::string:
      return is_inside ? "'" + value.string() + "'" : value.string();
    case Tree::Kind::list:
      for (const Tree& item : value.list()) add(python_text(item, true));
      return "[" + items + "]";
    case Tree::Kind::map:
      for (const Tree::Entry& entry : value.map()) add("'" + entry.key + "': " + python_text(entry.value, true));
      return "{" + items + "}";
    default:
      return value.text();
  }
}

std::string parent_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::string{} : path.substr(0, dot);
}

size_t size_of(const Tree& tree) {
  size_t size = 1 + (tree.is_string() ? tree.string().size() : 0);
  if (tree.is_list())
    for (const Tree& item : tree.list()) size += size_of(item);
  if (tree.is_map())
    for (const Tree::Entry& entry : tree.map()) size += size_of(entry.value);
  return size;
}

// nullopt if the result does not fit, or the divisor is 0.
std::optional<Tree> calculate(std::string_view operation, const Tree& a, const Tree& b) {
  if (a.kind() == Tree::Kind::integer && b.kind() == Tree::Kind::integer) {
    const int64_t x = a.integer(), y = b.integer();
    int64_t result = 0;
    if (operation == "multiply") return __builtin_mul_overflow(x, y, &result) ? std::nullopt : std::optional(Tree(result));
    if (operation == "sum") return __builtin_add_overflow(x, y, &result) ? std::nullopt : std::optional(Tree(result));
    if (y == 0 || (x == std::numeric_limits<int64_t>::min() && y == -1)) return std::nullopt;
    const bool inexact = x % y != 0, negative = (x < 0) != (y < 0);
    if (operation == "divide_ceil") return Tree(x / y + (inexact && !negative ? 1 : 0));
    return Tree(x / y - (inexact && negative ? 1 : 0));
  }
  const auto as_real = [](const Tree& t) { return t.kind() == Tree::Kind::real ? t.real() : static_cast<double>(t.integer()); };
  if (operation == "multiply") return Tree(as_real(a) * as_real(b));
  if (operation == "sum") return Tree(as_real(a) + as_real(b));
  const double quotient = as_real(a) / as_real(b);
  if (!(std::abs(quotient) < 9e18)) return std::nullopt;
  return Tree(static_cast<int64_t>(operation == "divide_ceil" ? std::ceil(quotient) : std::floor(quotient)));
}

class Resolver {
 public:
  Resolver(Tree& root, const InterpolationContext& context) : root_(root), context_(context) {}

  void resolve_all() { resolve_entries(root_, ""); }

 private:
  // Visits all values, and skips those that may refer to nothing and do.
  void resolve_entries(Tree& value, const std::string& path) {
    if (value.is_map()) {
      for (Tree::Entry& entry : value.map()) resolve_entries(entry.value, join_path(path, entry.key));
      return;
    }
    try {
      resolve(value, path);
    } catch (const UserError&) {
      if (!context_.may_dangle(path)) throw;
      chain_.clear();
    }
  }

  // Replaces all references in the value at `path`.
  void resolve(Tree& value, const std::string& path) {
    if (value.is_map()) {
      for (Tree::Entry& entry : value.map()) resolve(entry.value, join_path(path, entry.key));
    } else if (value.is_list()) {
      for (size_t i = 0; i < value.list().size(); ++i) resolve(value.list()[i], join_path(path, std::to_string(i)));
    } else if (value.is_string() && value.string().find("${") != std::string::npos && !is_resolved(path)) {
      if (std::ranges::find(chain_, path) != chain_.end())
        throw UserError("{} refers to itself: {} -> {}{}", path, fmt::join(chain_, " -> "), path, value.where_suffix());
      if (chain_.size() >= kMaxChain)
        throw UserError("{}: more than {} references in a row{}", path, kMaxChain, value.where_suffix());
      chain_.push_back(path);
      Tree result = evaluate(value.string(), path, value);
      result.origin = value.origin;
      value = std::move(result);
      chain_.pop_back();
      resolved_.insert(path);
    }
  }

  // Remaining text with ${ was written \${ and is not a reference.
  bool is_resolved(std::string path) const {
    for (; !path.empty(); path = parent_of(path))
      if (resolved_.contains(path)) return true;
    return false;
  }

  [[noreturn]] static void fail(const std::string& path, const Tree& site, const std::string& what) {
    throw UserError("{}={}: {}{}", path, site.brief(), what, site.where_suffix());
  }

  Tree counted(Tree value, const std::string& path, const Tree& site) {
    expansion_ += size_of(value);
    if (expansion_ > kMaxExpansion) fail(path, site, "the references of the recipe expand to more than a recipe can be");
    return value;
  }

  // The value of a text with references. `site` is the value that holds it. \${ is the text ${, and \\${ is a backslash followed
  // by a reference; other backslashes are literal.
  Tree evaluate(std::string_view text, const std::string& path, const Tree& site) {
    std::string joined;
    for (size_t i = 0; i < text.size();) {
      const size_t open = text.find("${", i);
      joined += text.substr(i, open == std::string_view::npos ? open : open - i);
      if (open == std::string_view::npos) break;
      size_t backslashes = 0;
      while (backslashes < open - i && text[open - backslashes - 1] == '\\') ++backslashes;
      joined.resize(joined.size() - (backslashes + 1) / 2);
      if (backslashes % 2 != 0) {
        joined += "${";
        i = open + 2;
        continue;
      }
      const size_t end = end_of_reference(text, open + 2);
      if (end == std::string_view::npos) fail(path, site, "the closing } of ${ is missing");
      const std::string_view reference = text.substr(open + 2, end - open - 3);
      Tree value = counted(evaluate_reference(reference, path, site), path, site);
      // An environment variable is text; if it is the whole value, it is parsed like a value in a file.
      const bool is_variable = trimmed(reference).starts_with("oc.env:") && value.is_string();
      if (open == 0 && end == text.size()) return is_variable ? scalar_from_text(value.string()) : value;
      joined += python_text(value);
      i = end;
    }
    return counted(Tree(std::move(joined)), path, site);
  }

  Tree evaluate_reference(std::string_view reference, const std::string& path, const Tree& site) {
    const size_t colon = reference.find(':');
    if (colon != std::string_view::npos && reference.substr(0, colon).find("${") == std::string_view::npos)
      return call(trimmed(reference.substr(0, colon)), reference.substr(colon + 1), path, site);
    std::string target(trimmed(reference));
    if (target.find("${") != std::string::npos) target = evaluate(target, path, site).text();
    return look_up(with_dots(target), path, site);
  }

  Tree call(std::string_view operation, std::string_view arguments, const std::string& path, const Tree& site) {
    if (operation == "oc.env") return environment(arguments, path, site);
    if (operation == "oc.select") return select(arguments, path, site);
    if (operation == "oc.decode") return decode(arguments, path, site);
    if (operation == "hydra") return runtime(arguments, path, site);
    if (operation == "beside") return beside(arguments, path, site);
    constexpr std::array<std::string_view, 4> kArithmetic = {"multiply", "sum", "divide_ceil", "divide_floor"};
    if (std::ranges::find(kArithmetic, operation) == kArithmetic.end())
      fail(path, site,
           fmt::format(
               "there is no {}; use multiply, sum, divide_ceil, divide_floor, oc.env, oc.select, oc.decode, beside or hydra",
               operation));
    std::vector<Tree> values;
    for (const std::string_view argument : split_arguments(arguments)) {
      values.push_back(value_of(trimmed(argument), path, site));
      if (values.back().kind() != Tree::Kind::integer && values.back().kind() != Tree::Kind::real)
        fail(path, site, fmt::format("{} needs numbers, not '{}'", operation, values.back().brief()));
    }
    if (values.size() != 2) fail(path, site, fmt::format("{} needs two numbers, not {}", operation, values.size()));
    const auto result = calculate(operation, values[0], values[1]);
    if (!result) fail(path, site, fmt::format("{} of {} and {} is not a number", operation, values[0].text(), values[1].text()));
    return *result;
  }

  Tree value_of(std::string_view text, const std::string& path, const Tree& site) {
    const bool is_quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
    if (is_quoted && text.find("${") != std::string_view::npos)
      return Tree(python_text(evaluate(text.substr(1, text.size() - 2), path, site)));
    return text.find("${") == std::string_view::npos ? parse_value(text) : evaluate(text, path, site);
  }

  // ${oc.env:NAME} or ${oc.env:NAME,default}
  Tree environment(std::string_view arguments, const std::string& path, const Tree& site) {
    const std::vector<std::string_view> parts = split_arguments(arguments);
    const std::string name(trimmed(parts[0]));
    if (const char* value = std::getenv(name.c_str()); value != nullptr) {
      require_utf8(value, fmt::format("{}={}: the environment variable {}", path, site.brief(), name));
      return Tree(std::string(value));
    }
    if (parts.size() < 2)
      fail(path, site, fmt::format("the environment variable {} is not set; set it or give {}=VALUE", name, path));
    return value_of(trimmed(arguments.substr(parts[0].size() + 1)), path, site);
  }

  // ${beside:PATH}: a path relative to the folder of the recipe file that contains it, independent of the working directory.
  static Tree beside(std::string_view name, const std::string& path, const Tree& site) {
    if (site.origin.file == nullptr) fail(path, site, "beside: there is no file to be beside; give the path itself");
    const std::filesystem::path folder = std::filesystem::path(*site.origin.file).parent_path();
    return Tree((folder / trimmed(name)).lexically_normal().string());
  }

  // ${oc.select:a.b} or ${oc.select:a.b,default}: the value, or the default if absent.
  Tree select(std::string_view arguments, const std::string& path, const Tree& site) {
    const std::vector<std::string_view> parts = split_arguments(arguments);
    const std::string target = with_dots(value_of(trimmed(parts[0]), path, site).text());
    const Tree* present = root_.find(absolute_key(target, path, site));
    if (present != nullptr && !is_missing_value(*present)) return look_up(target, path, site);
    return parts.size() < 2 ? Tree{} : value_of(trimmed(arguments.substr(parts[0].size() + 1)), path, site);
  }

  // ${oc.decode:TEXT}: the text parsed as a value.
  Tree decode(std::string_view arguments, const std::string& path, const Tree& site) {
    const std::string_view argument = trimmed(arguments);
    const bool is_variable = argument.starts_with("${oc.env:");
    const Tree text =
        is_variable ? evaluate_reference(argument.substr(2, argument.size() - 3), path, site) : value_of(argument, path, site);
    return text.is_string() ? parse_value(text.string()) : text;
  }

  // ${hydra:runtime.choices.GROUP}
  Tree runtime(std::string_view arguments, const std::string& path, const Tree& site) {
    constexpr std::string_view kChoices = "runtime.choices.";
    const std::string_view name = trimmed(arguments);
    if (!name.starts_with(kChoices)) fail(path, site, "of hydra: there is only runtime.choices.GROUP");
    const std::string group(name.substr(kChoices.size())), choice = context_.choice(group);
    if (choice.empty()) fail(path, site, fmt::format("the defaults list has no {}", group));
    return scalar_from_text(choice);
  }

  std::string absolute_key(const std::string& target, const std::string& path, const Tree& site) const {
    std::string absolute = canonical_key(absolute_path(target, path, site));
    constexpr std::string_view kRoot = "training.";
    if (absolute.starts_with(kRoot) && root_.find("training") == nullptr) absolute.erase(0, kRoot.size());
    return absolute;
  }

  Tree look_up(const std::string& target, const std::string& path, const Tree& site) {
    const std::string absolute = absolute_key(target, path, site);
    context_.refers(path, absolute);
    Tree* value = &root_;
    std::string walked;
    for (std::string_view rest = absolute; !rest.empty();) {
      const PathStep step = split_path(rest);
      if (value->is_string()) resolve(*value, walked);  // a reference on the way may resolve to a map
      walked = join_path(walked, step.key);
      value = value->find(step.key);
      if (value == nullptr) fail(path, site, missing(absolute));
      rest = step.rest;
    }
    resolve(*value, absolute);
    if (is_missing_value(*value))
      throw UserError("{}: must be given, because {} refers to it{}", absolute, path, value->where_suffix());
    return *value;
  }

  // Recipes refer to keys of the launcher's conf/config.yaml; the user must give them when the recipe is used alone.
  static std::string missing(const std::string& key) {
    constexpr std::array<std::string_view, 4> kGivenByLauncher = {"data_dir", "base_results_dir", "launcher_scripts_path",
                                                                  "bignlp_path"};
    if (std::ranges::find(kGivenByLauncher, key) == kGivenByLauncher.end()) return fmt::format("the recipe has no {}", key);
    return fmt::format("{0} must be given; add for example {0}=/path/to/it", key);
  }

  // One leading dot: a sibling of the value at `path`. Each further dot: one map up.
  static std::string absolute_path(const std::string& target, const std::string& path, const Tree& site) {
    const size_t dots = std::min(target.find_first_not_of('.'), target.size());
    if (dots == target.size()) fail(path, site, "a reference must name a key");
    if (dots == 0) return target;
    std::string base = path;
    for (size_t i = 0; i < dots; ++i) {
      if (base.empty()) fail(path, site, fmt::format("{} points above the top of the recipe", target));
      base = parent_of(base);
    }
    return join_path(base, target.substr(dots));
  }

  Tree& root_;
  const InterpolationContext& context_;
  std::set<std::string> resolved_;  // the places of values whose references are replaced
  std::vector<std::string> chain_;  // the values being resolved; each is referred to by the one before
  size_t expansion_ = 0;
};

}  // namespace

bool is_missing_value(const Tree& value) { return value.is_string() && value.string() == "???"; }

void resolve_interpolations(Tree& recipe, const InterpolationContext& context) { Resolver(recipe, context).resolve_all(); }

}  // namespace trireme
