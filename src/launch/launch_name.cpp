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
  return nodes > 1 ? fmt::format("{}{}", name, nodes) : name;
}

void require_launch_name(const std::string& name) {
  constexpr size_t kLongest = 48;  // a Kubernetes label has 63, and stages append to it
  const auto is_allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, is_allowed) || name.front() == '-' ||
      name.back() == '-')
    throw UserError("--name {}: use at most {} lower case letters, digits and dashes, without a dash at an end", name, kLongest);
}

}  // namespace trireme
