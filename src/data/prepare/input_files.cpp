#include "data/prepare/input_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"

namespace trireme::prepare {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKnownNames = ".jsonl, .json, .txt or .tar, alone or followed by .zst, .gz or .xz";

struct CompressionRow {
  std::string_view ending;
  Compression compression;
};
constexpr CompressionRow kCompressions[] = {
    {".zst", Compression::zstd}, {".zstd", Compression::zstd}, {".gz", Compression::gzip}, {".xz", Compression::xz}};

struct ContentRow {
  std::string_view ending;
  Content content;
};
constexpr ContentRow kContents[] = {{".jsonl", Content::json_lines},
                                    {".json", Content::json_lines},
                                    {".ndjson", Content::json_lines},
                                    {".txt", Content::text},
                                    {".tar", Content::tar}};

InputFile input_file(const fs::path& path) {
  const auto wrapping = wrapping_of(path.filename().string());
  if (!wrapping) throw UserError("{}: its name does not say what it holds; known are {}", path.string(), kKnownNames);
  const auto stamp = find_stamp(path.string());
  if (!stamp) throw UserError("{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  return {.path = path.string(), .wrapping = *wrapping, .bytes = stamp->bytes, .stamp = *stamp};
}

// A dangling link must not silently drop text from the output.
void refuse_dangling(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && !fs::exists(path, ignored))
    throw UserError("{}: a link to {}, which is not there; remove the link or bring the file back", path.string(),
                    fs::read_symlink(path, ignored).string());
}

std::vector<fs::path> files_of_folder(const std::string& folder, std::vector<std::string>& passed_over) {
  std::vector<fs::path> files;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_symlink() && entry.is_directory())
        passed_over.push_back(entry.path().string() + ": a linked folder is not looked into; name it as an input of its own");
      if (!wrapping_of(entry.path().filename().string())) continue;
      refuse_dangling(entry.path());
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: cannot be listed: {}", error.path1().empty() ? folder : error.path1().string(), error.code().message());
  }
  if (files.empty()) throw UserError("{}: the folder has no file named {}", folder, kKnownNames);
  return files;
}

std::vector<fs::path> files_of_pattern(const std::string& pattern, std::vector<std::string>& passed_over) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> found_owner(&found, &globfree);
  const int status = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  if (status != 0 && status != GLOB_NOMATCH) throw UserError("{}: cannot be searched for", pattern);
  std::vector<fs::path> files;
  for (const char* path : std::span(found.gl_pathv, found.gl_pathc)) {
    refuse_dangling(path);
    if (fs::is_regular_file(path)) files.emplace_back(path);
    if (fs::is_directory(path))
      passed_over.push_back(fmt::format("{}: a folder that matches {} is not looked into; name it as an input", path, pattern));
  }
  if (files.empty()) throw UserError("{}: no file matches", pattern);
  return files;
}

std::vector<fs::path> files_of_entry(const std::string& entry, std::vector<std::string>& passed_over) {
  std::error_code error;
  refuse_dangling(entry);
  const fs::file_status status = fs::status(entry, error);
  if (fs::is_directory(status)) return files_of_folder(entry, passed_over);
  if (status.type() != fs::file_type::not_found) {
    if (error) throw UserError("{}: cannot be read: {}", entry, error.message());
    if (!fs::is_regular_file(status)) throw UserError("{}: neither a file nor a folder", entry);
    return {entry};
  }
  if (entry.find_first_of("*?[") == std::string::npos) throw UserError("{}: no such file or folder", entry);
  return files_of_pattern(entry, passed_over);
}

std::optional<int64_t> to_number(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || digits[0] == '-') return std::nullopt;
  return number;
}

}  // namespace

std::optional<Wrapping> wrapping_of(std::string_view name) {
  if (name.ends_with(".tgz")) return Wrapping{Compression::gzip, Content::tar};
  if (name.ends_with(".txz")) return Wrapping{Compression::xz, Content::tar};
  Wrapping wrapping;
  for (const auto& [ending, compression] : kCompressions)
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      wrapping.compression = compression;
      break;
    }
  for (const auto& [ending, content] : kContents)
    if (name.ends_with(ending)) {
      wrapping.content = content;
      return wrapping;
    }
  // OpenWebText's archives are tar files named *.xz.
  if (wrapping.compression != Compression::xz) return std::nullopt;
  wrapping.content = Content::unknown;
  return wrapping;
}

std::optional<FileStamp> find_stamp(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  const auto nanoseconds = [](const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; };
  return FileStamp{.bytes = status.st_size,
                   .modified = nanoseconds(status.st_mtim),
                   .inode = status.st_ino,
                   .status_changed = nanoseconds(status.st_ctim)};
}

std::vector<InputFile> find_input_files(const std::vector<std::string>& entries, std::vector<std::string>& passed_over) {
  std::vector<InputFile> files;
  for (const std::string& entry : entries) {
    std::vector<fs::path> found = files_of_entry(entry, passed_over);
    std::ranges::sort(found);
    std::ranges::transform(found, std::back_inserter(files), input_file);
  }
  return files;
}

std::set<int64_t> parse_file_numbers(const std::string& text) {
  constexpr int64_t kMost = 10'000'000;
  std::set<int64_t> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = std::string_view(text).substr(at, comma - at);
    const size_t dash = item.find('-');
    const auto first = to_number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : to_number(item.substr(dash + 1));
    if (!first || !last || *last < *first || *last > kMost)
      throw UserError("--files {}: '{}' is neither a number nor a range; write them as 0-29 or 0,3,5-7", text, item);
    for (int64_t number = *first; number <= *last; ++number) numbers.insert(number);
    at = comma + 1;
  }
  return numbers;
}

std::optional<int64_t> number_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find_first_of(".-_", at), name.size());
    if (const auto number = to_number(std::string_view(name).substr(at, end - at))) return number;
    at = end + 1;
  }
  return std::nullopt;
}

std::vector<InputFile> select_files(const std::vector<InputFile>& files, const std::string& numbers) {
  const std::set<int64_t> wanted = parse_file_numbers(numbers);
  std::set<int64_t> missing = wanted;
  std::vector<InputFile> selected;
  for (const InputFile& file : files) {
    const auto number = number_of_file(file.path);
    if (!number) throw UserError("--files {}: {} has no number in its name", numbers, file.path);
    if (!wanted.contains(*number)) continue;
    missing.erase(*number);
    selected.push_back(file);
  }
  if (!missing.empty()) throw UserError("--files {}: no input has the number {}", numbers, *missing.begin());
  return selected;
}

std::vector<Unit> cut_into_units(const std::vector<InputFile>& files, int64_t range_bytes) {
  std::vector<Unit> units;
  for (size_t i = 0; i < files.size(); ++i) {
    const InputFile& file = files[i];
    const bool can_be_cut = file.wrapping.compression == Compression::none && file.wrapping.content == Content::json_lines;
    const int64_t step = can_be_cut ? range_bytes : std::max<int64_t>(file.bytes, 1);
    int64_t begin = 0;
    do {
      units.push_back({.file = i, .begin = begin, .end = std::min(begin + step, file.bytes)});
      begin += step;
    } while (begin < file.bytes);
  }
  return units;
}

}  // namespace trireme::prepare
