#include "fetch/glob.h"

namespace trireme {
namespace {

constexpr std::string_view kSpecial = "*?[";

// Returns whether `c` is in the set after the [ at the front of `pattern`, and removes the set. A [ without ] is literal.
bool take_set(std::string_view& pattern, char c) {
  size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  bool found = false;
  const size_t first = i;
  for (; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  if (i >= pattern.size()) {
    pattern.remove_prefix(1);
    return c == '[';
  }
  pattern.remove_prefix(i + 1);
  return found != negated && c != '/';
}

}  // namespace

bool is_glob(std::string_view text) { return text.find_first_of(kSpecial) != std::string_view::npos; }

std::string literal_prefix_of_glob(std::string_view pattern) {
  return std::string(pattern.substr(0, pattern.find_first_of(kSpecial)));
}

// Only the last star needs to backtrack: a longer match of an earlier star would leave less for it. A * that cannot extend over a
// / falls back to the last ** before it.
bool glob_matches(std::string_view pattern, std::string_view name) {
  struct Star {
    std::string_view pattern, name;  // where to resume
    bool set = false;
  };
  Star within, across;
  for (;;) {
    if (pattern.starts_with("**")) {
      pattern.remove_prefix(2);
      across = {pattern, name, true};
      within = {};
      continue;
    }
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      within = {pattern, name, true};
      continue;
    }
    if (pattern.empty() && name.empty()) return true;
    std::string_view rest = pattern;
    bool matched = false;
    if (!pattern.empty() && !name.empty()) {
      if (pattern.front() == '[') {
        matched = take_set(rest, name.front());
      } else {
        matched = pattern.front() == '?' ? name.front() != '/' : pattern.front() == name.front();
        rest.remove_prefix(1);
      }
    }
    if (matched) {
      pattern = rest;
      name.remove_prefix(1);
      continue;
    }
    if (within.set && !within.name.empty() && within.name.front() != '/') {
      within.name.remove_prefix(1);
      pattern = within.pattern;
      name = within.name;
    } else if (across.set && !across.name.empty()) {
      across.name.remove_prefix(1);
      pattern = across.pattern;
      name = across.name;
      within = {};
    } else {
      return false;
    }
  }
}

}  // namespace trireme
