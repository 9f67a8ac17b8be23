#include "data/flat/flat_description.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kName = "tokens.json";
constexpr int64_t kMaxBytes = 1 << 20;

FlatDescription parse_description(const fs::path& path) {
  const json read = try_parse_json(read_file(path, kMaxBytes));
  try {
    FlatDescription description;
    const std::string name = read.at("token_type");
    const auto type = token_type_named(name);
    if (!type) throw UserError("{}: token_type {} is not known", path.string(), name);
    description.type = *type;
    read.at("vocabulary").get_to(description.vocabulary);
    read.at("files").get_to(description.files);
    return description;
  } catch (const json::exception&) {
    throw UserError("{}: not a description of token files; prepare the data again", path.string());
  }
}

}  // namespace

void write_flat_description(const fs::path& folder, const FlatDescription& description) {
  const json text = {
      {"token_type", name_of(description.type)}, {"vocabulary", description.vocabulary}, {"files", description.files}};
  const std::string bytes = json_text(text) + "\n";
  atomic_write(folder / kName, bytes_of(bytes));
}

std::optional<FlatDescription> read_flat_description(const fs::path& file) {
  const fs::path path = file.parent_path() / kName;
  if (!fs::exists(path)) return std::nullopt;
  FlatDescription description = parse_description(path);
  const auto entry = description.files.find(file.filename().string());
  if (entry == description.files.end()) return std::nullopt;
  const auto bytes = static_cast<int64_t>(fs::file_size(file));
  if (bytes != entry->second * size_of(description.type))
    throw UserError("{}: {} bytes, but {} says {} tokens of {}; prepare the data again", file.string(), bytes, path.string(),
                    entry->second, name_of(description.type));
  return description;
}

}  // namespace trireme
