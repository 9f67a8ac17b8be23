// Which files hold the text, in which order, and how they are wrapped.
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
  json_lines,  // a document a line
  text,        // one document
  tar,         // files of the other kinds, by their names
  unknown,     // tar or text: what the first bytes say
};

struct Wrapping {
  Compression compression = Compression::none;
  Content content = Content::text;
};

// By the endings of a name: .jsonl .json .ndjson .txt .tar, followed by .zst .zstd .gz .xz; also .tgz, .txz and .xz alone.
// Nothing for other names.
std::optional<Wrapping> wrapping_of(std::string_view name);

// What tells a file from another one of the same name without reading it.
struct FileStamp {
  int64_t bytes = 0;
  int64_t modified = 0;  // nanoseconds since 1970
  uint64_t inode = 0;
  int64_t status_changed = 0;  // nanoseconds since 1970; no program sets it back, but renaming or linking a file sets it too

  bool operator==(const FileStamp&) const = default;
};
std::optional<FileStamp> find_stamp(const std::string& path);  // nothing: it cannot be looked at, and errno says why

struct InputFile {
  std::string path;
  Wrapping wrapping;
  int64_t bytes = 0;
  FileStamp stamp{};
};

// Each entry is a file, a folder (all files in it and below whose names wrapping_of knows), or a glob pattern. Those of one entry
// are sorted by path. UserError for an entry that gives nothing, and for a link to nothing. `passed_over` gets a line for each
// folder that an entry leads to and that is not looked into.
std::vector<InputFile> find_input_files(const std::vector<std::string>& entries, std::vector<std::string>& passed_over);

// "0-29" or "0,3,5-7". UserError names the option.
std::set<int64_t> parse_file_numbers(const std::string& text);

// The first part of a file name, between . - and _, that is a number: 7 for pile-07.jsonl.zst.
std::optional<int64_t> number_of_file(const std::string& path);

// Those whose numbers are asked for. UserError when a number has no file, or a file has no number.
std::vector<InputFile> select_files(const std::vector<InputFile>& files, const std::string& numbers);

// A stretch of work that is read from its start: a file, or a range of a large file of plain lines.
struct Unit {
  size_t file = 0;
  int64_t begin = 0, end = 0;  // bytes of the file as it lies on the disk; lines that begin in here belong to it

  bool operator==(const Unit&) const = default;
};
std::vector<Unit> cut_into_units(const std::vector<InputFile>& files, int64_t range_bytes);

}  // namespace trireme::prepare
