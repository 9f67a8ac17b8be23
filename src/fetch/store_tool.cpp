#include "fetch/store_tool.h"

#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace trireme {
namespace {

using Kind = StoreTool::Kind;
constexpr int64_t kListingLimit = int64_t{1} << 30;

struct ToolRow {
  Kind kind;
  const char* name;
  Scheme scheme;
};
constexpr std::array kTools{ToolRow{Kind::s5cmd, "s5cmd", Scheme::s3}, ToolRow{Kind::aws, "aws", Scheme::s3},
                            ToolRow{Kind::gcloud, "gcloud", Scheme::gs}, ToolRow{Kind::azcopy, "azcopy", Scheme::az}};

// azcopy addresses blobs by URL; the others use s3:// and gs://.
std::string address_for(Kind kind, const Location& location) {
  return kind == Kind::azcopy ? http_address(location) : shown(location);
}

std::string folder_of_key(const std::string& key) { return key.substr(0, key.rfind('/') + 1); }

std::vector<std::string> copy_arguments(const StoreTool& tool, const std::string& from, const std::string& to,
                                        const char* azure_direction) {
  switch (tool.kind) {
    case Kind::s5cmd:
      return {tool.program, "cp", "--raw", from, to};  // raw: a * in a key is literal
    case Kind::aws:
      return {tool.program, "s3", "cp", "--only-show-errors", from, to};
    case Kind::gcloud:
      return {tool.program, "storage", "cp", "--quiet", from, to};
    case Kind::azcopy:
      return {tool.program, "copy", from, to, azure_direction, "--overwrite=true", "--output-level=essential"};
  }
  CHECK_NEVER("a tool that is not in the table");
}

std::vector<std::string> list_arguments(const StoreTool& tool, const Location& prefix) {
  switch (tool.kind) {
    case Kind::s5cmd:
      return {tool.program, "--json", "ls", shown(prefix) + "*"};
    case Kind::aws:
      return {tool.program, "s3api", "list-objects-v2", "--bucket", prefix.root, "--prefix", prefix.path, "--output", "json"};
    case Kind::gcloud:
      return {tool.program, "storage", "objects", "list", shown(prefix) + "**", "--format=json(name,size,update_time)"};
    case Kind::azcopy:
      return {tool.program, "list", http_address(with_path(prefix, folder_of_key(prefix.path))), "--machine-readable",
              "--properties=LastModifiedTime"};
  }
  CHECK_NEVER("a tool that is not in the table");
}

std::string last_line(const std::string& text) {
  std::string last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const std::string_view words = trimmed(line); !words.empty()) last = words;
  return last.substr(0, 300);
}

CommandOutput run_tool(const std::vector<std::string>& arguments, const std::atomic<bool>* stop) {
  return run_command(arguments, kListingLimit, stop);
}

[[noreturn]] void fail_tool(const StoreTool& tool, const Location& location, const CommandOutput& result) {
  const std::string said = last_line(result.errors.empty() ? result.output : result.errors);
  throw Failure("{}: {} ended with status {}{}{}", shown(location), name_of(tool.kind), result.status, said.empty() ? "" : ": ",
                said);
}

void copy(const StoreTool& tool, const std::string& from, const std::string& to, const Location& store, const char* direction,
          const std::atomic<bool>* stop) {
  const CommandOutput result = run_tool(copy_arguments(tool, from, to, direction), stop);
  if (result.status != 0) fail_tool(tool, store, result);
}

int64_t size_of(const nlohmann::json& value) {
  return value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>();
}

// Parses "folder/name; LastModifiedTime: 2024-01-02 03:04:05 +0000 GMT; Content Length: 123", in some versions prefixed by "INFO:
// ".
std::optional<RemoteObject> parse_azcopy_line(std::string_view line, const std::string& folder) {
  if (line.starts_with("INFO: ")) line.remove_prefix(6);
  constexpr std::string_view kLength = "; Content Length: ", kTime = "; LastModifiedTime: ";
  const size_t length = line.rfind(kLength);
  if (length == std::string_view::npos) return std::nullopt;
  const size_t time = line.rfind(kTime, length);
  RemoteObject object;
  object.key = folder + std::string(line.substr(0, std::min(time, length)));
  const std::string_view number = line.substr(length + kLength.size());
  if (std::from_chars(number.data(), number.data() + number.size(), object.size).ec != std::errc{}) return std::nullopt;
  if (time != std::string_view::npos) object.modified = parse_date(std::string(line.substr(time + kTime.size(), 19)));
  return object;
}

std::string without_bucket(const std::string& key, const Location& prefix) {
  const std::string bucket = shown(with_path(prefix, ""));
  return key.starts_with(bucket) ? key.substr(bucket.size()) : key;
}

std::vector<RemoteObject> parse_lines(Kind kind, const std::string& output, const Location& prefix) {
  std::vector<RemoteObject> objects;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (kind == Kind::azcopy) {
      if (auto object = parse_azcopy_line(line, folder_of_key(prefix.path))) objects.push_back(std::move(*object));
      continue;
    }
    const auto item = parse_json(line);
    if (item.value("type", "file") != "file") continue;
    objects.push_back(
        {without_bucket(item.at("key"), prefix), size_of(item.at("size")), parse_date(item.value("last_modified", ""))});
  }
  return objects;
}

// Parses an array of objects, under "Contents" for aws; field names differ between the tools.
std::vector<RemoteObject> parse_array(Kind kind, const std::string& output) {
  std::vector<RemoteObject> objects;
  if (trimmed(output).empty()) return objects;
  const auto answer = parse_json(output);
  const bool aws = kind == Kind::aws;
  const auto items = aws && answer.is_object() ? answer.value("Contents", nlohmann::json::array()) : answer;
  if (!items.is_array()) return objects;
  for (const auto& item : items)
    objects.push_back({item.at(aws ? "Key" : "name"), size_of(item.at(aws ? "Size" : "size")),
                       parse_date(item.value(aws ? "LastModified" : "update_time", ""))});
  return objects;
}

}  // namespace

const char* name_of(Kind kind) {
  for (const ToolRow& row : kTools)
    if (row.kind == kind) return row.name;
  CHECK_NEVER("a tool that is not in the table");
}

bool is_store_tool(const std::string& wanted) {
  return wanted == "auto" || std::ranges::any_of(kTools, [&](const ToolRow& row) { return wanted == row.name; });
}

StoreTool find_store_tool(const Location& store, const std::string& wanted) {
  std::vector<std::string> names;
  for (const ToolRow& row : kTools) {
    if (row.scheme != store.scheme) continue;
    names.emplace_back(row.name);
    if (wanted != "auto" && wanted != row.name) continue;
    if (std::string program = find_program(row.name); !program.empty()) return {row.kind, std::move(program)};
  }
  if (wanted != "auto" && std::ranges::find(names, wanted) == names.end())
    throw UserError("{}: {} is not a tool for it; use {}", shown(store), wanted, fmt::join(names, " or "));
  throw Failure("{}: needs credentials, and {} is not on PATH; install {}", shown(store),
                wanted == "auto" ? fmt::format("{}", fmt::join(names, " or ")) : wanted, names.size() > 1 ? "one of them" : "it");
}

std::vector<RemoteObject> parse_tool_listing(Kind kind, const std::string& output, const Location& prefix) {
  std::vector<RemoteObject> objects;
  try {
    objects = kind == Kind::s5cmd || kind == Kind::azcopy ? parse_lines(kind, output, prefix) : parse_array(kind, output);
  } catch (const std::exception&) {
    throw Failure("{}: {} printed a list that is not understood", shown(prefix), name_of(kind));
  }
  std::erase_if(objects, [&](const RemoteObject& object) { return !object.key.starts_with(prefix.path); });
  return objects;
}

std::vector<RemoteObject> list_objects(const StoreTool& tool, const Location& prefix, const std::atomic<bool>* stop) {
  const CommandOutput result = run_tool(list_arguments(tool, prefix), stop);
  // s5cmd and gcloud report an empty listing as an error.
  for (const char* empty : {"no object found", "matched no objects"})
    if (result.status != 0 && result.errors.find(empty) != std::string::npos) return {};
  if (result.status != 0) fail_tool(tool, prefix, result);
  return parse_tool_listing(tool.kind, result.output, prefix);
}

void download(const StoreTool& tool, const Location& from, const std::string& to, const std::atomic<bool>* stop) {
  copy(tool, address_for(tool.kind, from), to, from, "--from-to=BlobLocal", stop);
}

void upload(const StoreTool& tool, const std::string& from, const Location& to, const std::atomic<bool>* stop) {
  copy(tool, from, address_for(tool.kind, to), to, "--from-to=LocalBlob", stop);
}

}  // namespace trireme
