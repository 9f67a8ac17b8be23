// Finds the input files, their order, compression and content.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::prepare {

enum class Compression : uint8_t { none, zstd, gzip, xz };
enum class Content : uint8_t {
  json_lines,  // one document per line
  text,        // one document
  tar,         // contains files of the other kinds, recognised by name
  unknown,     // tar or text; the first bytes decide
};

struct Wrapping {
  Compression compression = Compression::none;
  Content content = Content::text;
};

// Recognises names by their endings: .jsonl .json .ndjson .txt .tar, followed by .zst .zstd .gz .xz; also .tgz, .txz and .xz
// alone. Returns nothing for other names.
std::optional<Wrapping> wrapping_of(std::string_view name);

// Distinguishes a file from another one of the same name without reading it.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified = 0;  // nanoseconds since 1970
  uint64_t inode = 0;
  int64_t status_changed = 0;  // nanoseconds since 1970; no program can set it back, but renaming or linking updates it

  bool operator==(const FileStamp&) const = default;
};
std::optional<FileStamp> find_stamp(const std::string& path);  // no value: stat failed, and errno says why

struct InputFile {
  std::string path;
  Wrapping wrapping;
  int64_t bytes = 0;
  FileStamp stamp{};
};

// Each entry is a file, a folder (all files in and below it whose names wrapping_of knows) or a glob pattern. The files of one
// entry are sorted by path. UserError for an entry without files and for a dangling link. `passed_over` receives a line per
// folder that an entry matches but that is not searched.
std::vector<InputFile> find_input_files(const std::vector<std::string>& entries, std::vector<std::string>& passed_over);

// Parses "0-29" or "0,3,5-7". UserError names the option.
std::set<int64_t> parse_file_numbers(const std::string& text);

// Returns the first part of a file name, between . - and _, that is a number: 7 for pile-07.jsonl.zst.
std::optional<int64_t> number_of_file(const std::string& path);

// Returns the files with these numbers. UserError if a number has no file or a file has no number.
std::vector<InputFile> select_files(const std::vector<InputFile>& files, const std::string& numbers);

// A range of input that is read from its start: a file, or a range of a large file of plain lines.
struct Unit {
  size_t file = 0;
  int64_t begin = 0, end = 0;  // byte range on disk; lines that start in it belong to the unit

  bool operator==(const Unit&) const = default;
};
std::vector<Unit> cut_into_units(const std::vector<InputFile>& files, int64_t range_bytes);

}  // namespace trireme::prepare
