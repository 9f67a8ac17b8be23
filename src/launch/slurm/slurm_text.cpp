#include "launch/slurm/slurm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

namespace trireme {
namespace {

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '/' || c == '[' || c == ']';
}

// The length of the key that a word begins with: 5 of "State=IDLE", 0 of "responding".
size_t key_length(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 || std::isupper(static_cast<unsigned char>(word[0])) == 0) return 0;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_key_character) ? equals : 0;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Commas inside brackets do not separate.
std::vector<std::string> split_node_list(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth <= 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  std::erase(parts, "");
  return parts;
}

// "1-3,07" -> 1 2 3 07; empty if it is not a list of ranges.
std::vector<std::string> expand_ranges(const std::string& ranges) {
  constexpr int64_t kMostNodes = 1 << 20;
  std::vector<std::string> numbers;
  for (const std::string& range : split_at(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string first = range.substr(0, dash), last = dash == std::string::npos ? first : range.substr(dash + 1);
    const auto begin = whole_number(first), end = whole_number(last);
    if (!begin || !end || *end - *begin > kMostNodes) return {};
    for (int64_t i = *begin; i <= *end; ++i) numbers.push_back(fmt::format("{:0{}}", i, first.size()));
  }
  return numbers;
}

}  // namespace

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<SlurmObject> parse_slurm_objects(const std::string& text) {
  std::vector<SlurmObject> objects;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    SlurmObject object;
    std::string* value = nullptr;
    for (const std::string& word : split_at(line, ' ')) {
      if (const size_t length = key_length(word); length > 0) {
        value = &object.try_emplace(word.substr(0, length), word.substr(length + 1)).first->second;
      } else if (value != nullptr) {
        *value += ' ' + word;
      }
    }
    if (!object.empty()) objects.push_back(std::move(object));
  }
  return objects;
}

SlurmObject parse_slurm_config(const std::string& text) {
  SlurmObject config;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    config.try_emplace(std::string(trimmed(std::string_view(line).substr(0, equals))),
                       trimmed(std::string_view(line).substr(equals + 1)));
  }
  return config;
}

std::string slurm_value(const SlurmObject& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || found->second == "(null)" || found->second == "N/A" || found->second == "None") return "";
  return found->second;
}

int64_t slurm_number(const SlurmObject& object, const std::string& key, int64_t otherwise) {
  return whole_number(slurm_value(object, key)).value_or(otherwise);
}

std::vector<std::string> expand_node_list(const std::string& list) {
  std::vector<std::string> nodes;
  for (const std::string& part : split_node_list(list)) {
    const size_t open = part.find('['), close = part.find(']');
    const bool has_ranges = open != std::string::npos && close != std::string::npos && close > open;
    const std::vector<std::string> numbers =
        has_ranges ? expand_ranges(part.substr(open + 1, close - open - 1)) : std::vector<std::string>();
    if (numbers.empty()) nodes.push_back(part);
    for (const std::string& number : numbers)
      for (const std::string& rest : expand_node_list(part.substr(0, open) + number + part.substr(close + 1)))
        nodes.push_back(rest);
  }
  return nodes;
}

std::optional<int64_t> parse_slurm_seconds(const std::string& text) {
  const size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  const auto days = has_days ? whole_number(std::string_view(text).substr(0, dash)) : std::optional<int64_t>(0);
  std::vector<int64_t> parts;
  for (const std::string& part : split_at(std::string_view(text).substr(has_days ? dash + 1 : 0), ':')) {
    const auto value = whole_number(part);
    if (!value || *value > 100'000'000) return std::nullopt;
    parts.push_back(*value);
  }
  if (!days || *days > 100'000 || parts.empty() || parts.size() > 3) return std::nullopt;
  // The first part is hours after days, and of three parts; else minutes.
  const bool has_hours = has_days || parts.size() == 3;
  parts.resize(3);
  const int64_t seconds = has_hours ? parts[0] * 3600 + parts[1] * 60 + parts[2] : parts[0] * 60 + parts[1];
  return *days * 86400 + seconds;
}

std::string format_slurm_seconds(int64_t seconds) {
  const int64_t days = seconds / 86400, hours = seconds / 3600 % 24;
  const std::string rest = fmt::format("{:02}:{:02}", seconds / 60 % 60, seconds % 60);
  return days > 0 ? fmt::format("{}-{:02}:{}", days, hours, rest) : fmt::format("{}:{}", hours, rest);
}

int64_t gpus_of_gres(const std::string& gres) {
  int64_t gpus = 0;
  std::string plain;  // without the remarks in parentheses, which contain commas
  int depth = 0;
  for (const char c : gres) {
    depth += c == '(' ? 1 : 0;
    if (depth == 0) plain += c;
    depth -= c == ')' ? 1 : 0;
  }
  for (const std::string& one : split_at(plain, ',')) {
    const std::vector<std::string> parts = split_at(one, ':');
    if (parts.empty() || parts[0] != "gpu") continue;
    gpus += parts.size() == 1 ? 1 : whole_number(parts.back()).value_or(1);
  }
  return gpus;
}

}  // namespace trireme
