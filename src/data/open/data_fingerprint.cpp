#include "data/open/data_fingerprint.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>

#include "base/crc32c.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Returns the files that an entry may mean: a file, the two files of a prefix, a folder or a pattern.
std::vector<fs::path> files_behind(const std::string& entry) {
  std::vector<fs::path> files;
  std::error_code ignored;
  const auto add = [&](const fs::path& path) {
    if (fs::is_regular_file(path, ignored)) files.push_back(path);
  };
  for (const char* ending : {"", ".bin", ".idx"}) add(entry + ending);
  if (fs::is_directory(entry, ignored))
    for (const fs::directory_entry& found : fs::recursive_directory_iterator(entry, ignored)) add(found.path());
  if (entry.find_first_of("*?[") != std::string::npos) {
    glob_t found{};
    const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, &globfree);
    if (glob(entry.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
      for (const char* path : std::span(found.gl_pathv, found.gl_pathc)) add(path);
  }
  std::ranges::sort(files);
  return files;
}

uint32_t checksum_of_ends(const fs::path& path, int64_t bytes, uint32_t seed) {
  constexpr int64_t kEnd = 64 << 10;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(static_cast<size_t>(std::min(bytes, kEnd)));
  for (const int64_t start : {int64_t{0}, std::max<int64_t>(bytes - kEnd, 0)}) {
    file.seekg(start);
    file.read(buffer.data(), std::ssize(buffer));
    seed = crc32c(std::as_bytes(std::span(buffer)), seed);
  }
  return seed;
}

std::string fingerprint_of(const std::string& entry) {
  constexpr size_t kMostRead = 64;  // further files of a folder contribute only name and size
  const std::vector<fs::path> files = files_behind(entry);
  if (files.empty()) return "not found";
  int64_t total = 0;
  uint32_t checksum = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    std::error_code ignored;
    const auto bytes = static_cast<int64_t>(fs::file_size(files[i], ignored));
    const std::string text = fmt::format("{} {}\n", files[i].filename().string(), bytes);
    checksum = crc32c(std::as_bytes(std::span(text)), checksum);
    if (i < kMostRead) checksum = checksum_of_ends(files[i], bytes, checksum);
    total += bytes;
  }
  return fmt::format("{} {}, {} bytes, checksum {:08x}", files.size(), files.size() == 1 ? "file" : "files", total, checksum);
}

bool is_weight(const std::string& entry) { return entry.find_first_not_of("0123456789.eE+-") == std::string::npos; }

}  // namespace

std::vector<std::pair<std::string, std::string>> data_fingerprint(const DataSettings& data, const TokenizerSettings& tokenizer) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (data.is_made_up()) return rows;
  for (const auto* entries : {&data.data_prefix, &data.validation_prefix, &data.test_prefix})
    for (const std::string& entry : *entries)
      if (!is_weight(entry)) rows.emplace_back("data " + entry, fingerprint_of(entry));
  for (const std::string* file : {&tokenizer.model, &tokenizer.vocab_file, &tokenizer.merge_file})
    if (!file->empty()) rows.emplace_back("tokenizer " + *file, fingerprint_of(*file));
  return rows;
}

}  // namespace trireme
