#include "launch/launch_name.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"

namespace trireme {

namespace fs = std::filesystem;

std::string default_name(const std::string& recipe, int64_t nodes) {
  std::string text = recipe;
  for (const char* ending : {".yaml", ".yml"})
    if (text.ends_with(ending)) text = fs::path(text).stem().string();
  if (fs::path(text).is_absolute() || text.starts_with('.')) text = fs::path(text).lexically_normal().filename().string();
  std::string name;
  for (const char c : text) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_word)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (name.ends_with('-')) name.pop_back();
  if (name.empty()) name = "run";
  if (nodes <= 1) return name;
  const bool ends_in_digit = std::isdigit(static_cast<unsigned char>(name.back())) != 0;
  return fmt::format("{}{}{}", name, ends_in_digit ? "-" : "", nodes);
}

void require_launch_name(const std::string& name, TargetKind target) {
  constexpr size_t kLongest = 48;  // a Kubernetes label has 63, and stages append to it
  const bool is_object = target == TargetKind::kubernetes;
  const auto is_word = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (!is_object && ((c >= 'A' && c <= 'Z') || c == '_'));
  };
  const auto is_allowed = [&](char c) { return is_word(c) || c == '-' || (!is_object && c == '.'); };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, is_allowed) || !is_word(name.front()) ||
      !is_word(name.back()))
    throw UserError("--name {}: use at most {} {}, without {} at an end", name, kLongest,
                    is_object ? "lower case letters, digits and dashes" : "letters, digits, underscores, dots and dashes",
                    is_object ? "a dash" : "a dash or dot");
}

}  // namespace trireme
