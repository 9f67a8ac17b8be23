#include "data/text/text_files.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

UserError refuse(const std::string& path, const std::string& why) {
  return UserError("model.data.data_prefix: '{}' {}", path, why);
}

// A dangling link must not silently drop text from training.
void refuse_dangling(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && !fs::exists(path, ignored)) throw refuse(path.string(), "is a link to nothing");
}

bool holds_text(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto size = fs::file_size(path, error);
  // A file of unknown size stays in the list, so that reading it reports the error.
  return error || size > 0;
}

std::vector<std::string> files_of_folder(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_symlink() && entry.is_directory())
        throw refuse(entry.path().string(),
                     "is a linked folder, which is not looked into; name it by itself, or remove the link");
      if (entry.path().extension() != ".txt") continue;
      refuse_dangling(entry.path());
      if (holds_text(entry.path())) files.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw refuse(error.path1().empty() ? folder : error.path1().string(), "cannot be listed: " + error.code().message());
  }
  if (files.empty())
    throw refuse(folder,
                 fmt::format("is a folder without text in .txt files; name other files by a pattern such as '{}/*.md'", folder));
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> found_owner(&found, &globfree);
  // GLOB_NOSORT because glob's own order depends on the locale.
  const int status = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  if (status != 0 && status != GLOB_NOMATCH) throw refuse(pattern, "cannot be searched for");
  std::vector<std::string> files;
  for (const char* path : std::span(found.gl_pathv, found.gl_pathc)) {
    refuse_dangling(path);
    if (holds_text(path)) files.emplace_back(path);
  }
  if (files.empty()) throw refuse(pattern, "matches no file with text in it");
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> files_of_entry(const std::string& entry) {
  std::error_code error;
  const fs::file_status status = fs::status(entry, error);
  if (fs::is_directory(status)) return files_of_folder(entry);
  if (status.type() == fs::file_type::not_found) {
    if (entry.find_first_of("*?[") != std::string::npos) return files_of_pattern(entry);
    throw refuse(entry, "does not exist");
  }
  if (error) throw refuse(entry, "cannot be read: " + error.message());
  if (!fs::is_regular_file(status)) throw refuse(entry, "is neither a file nor a folder");
  if (!holds_text(entry)) throw refuse(entry, "is empty");
  return {entry};
}

}  // namespace

std::vector<std::string> find_text_files(const std::vector<std::string>& data_prefix) {
  if (data_prefix.empty())
    throw UserError(
        "model.data.data_prefix is empty; model.data.data_impl=text needs files, folders or patterns, e.g. [books/*.txt]");
  std::vector<std::string> files;
  for (const std::string& entry : data_prefix) {
    const std::vector<std::string> more = files_of_entry(entry);
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

std::string read_text_file(const std::string& path) {
  const auto refuse_reading = [&path] { return refuse(path, fmt::format("cannot be read: {}", std::strerror(errno))); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw refuse_reading();
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), file.get())) text.append(piece.data(), count);
  if (std::ferror(file.get()) != 0) throw refuse_reading();
  return text;
}

}  // namespace trireme
