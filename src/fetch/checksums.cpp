#include "fetch/checksums.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr int64_t kListLimit = 256 << 20;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

Checksums Checksums::read(const std::string& digits_or_path) {
  Checksums checksums;
  std::error_code failed;
  if (is_sha256(digits_or_path)) {
    checksums.single_ = lower_case(digits_or_path);
    return checksums;
  }
  if (!std::filesystem::is_regular_file(digits_or_path, failed))
    throw UserError("--sha256 {}: neither 64 hexadecimal digits nor a file", digits_or_path);
  checksums.path_ = digits_or_path;
  std::istringstream lines(read_file(digits_or_path, kListLimit));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (trimmed(line).empty() || line.front() == '#') continue;
    std::string_view name = trimmed(std::string_view(line).substr(std::min<size_t>(64, line.size())));
    if (name.starts_with('*')) name.remove_prefix(1);  // sha256sum marks files read as binary
    if (name.starts_with("./")) name.remove_prefix(2);
    if (!is_sha256(line.substr(0, 64)) || name.empty())
      throw UserError("{}:{}: expected 64 hexadecimal digits and a name, as sha256sum writes them", digits_or_path, number);
    checksums.by_name_[std::string(name)] = lower_case(line.substr(0, 64));
  }
  if (checksums.by_name_.empty()) throw UserError("--sha256 {}: the file has no checksums", digits_or_path);
  return checksums;
}

std::string Checksums::of(const std::string& name) const {
  if (!single_.empty() || by_name_.empty()) return single_;
  for (const std::string& key : {name, name.substr(name.rfind('/') + 1)})
    if (const auto found = by_name_.find(key); found != by_name_.end()) return found->second;
  throw UserError("--sha256 {}: has no line for {}", path_, name);
}

std::string sha256_of_file(const std::string& path) {
  const File file = File::open(path);
  const int64_t size = file.size();
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  while (hash.bytes() < size) {
    const auto piece = std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(1 << 20, size - hash.bytes())));
    file.read_at(hash.bytes(), piece);
    hash.add(piece);
  }
  return hash.finish();
}

}  // namespace trireme
