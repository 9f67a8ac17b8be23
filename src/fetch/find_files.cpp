#include "fetch/find_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "fetch/glob.h"
#include "fetch/partial_file.h"
#include "fetch/transfer_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string folder_part(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Returns how deep a glob can match: as many levels as it has slashes, unless it contains **.
int deepest(std::string_view pattern) {
  if (pattern.find("**") != std::string_view::npos) return 1 << 20;
  return static_cast<int>(std::ranges::count(pattern, '/'));
}

// Returns the single file of `source`. Its name is a separate local, because GCC 12 destroys members of a nested braced
// initializer twice if a later member throws.
std::vector<FoundFile> single_file(Source source) {
  std::string name = file_name_of(source.location);
  std::vector<FoundFile> found(1);
  found[0].source = std::move(source);
  found[0].name = std::move(name);
  return found;
}

// Link targets are copied in place of the link, so a link must not dangle or point to a folder that contains it.
void require_leads_on(const fs::path& link) {
  std::error_code failed;
  const fs::path target = fs::canonical(link, failed);
  if (failed) throw UserError("{}: a link to nothing; remove it or bring back what it named", link.string());
  const fs::path place = fs::canonical(link.parent_path().empty() ? "." : link.parent_path(), failed);
  const bool is_above = !failed && std::ranges::mismatch(target, place).in1 == target.end();
  if (is_above) throw UserError("{}: a link that leads back to {}, which it is in; remove it", link.string(), target.string());
}

std::vector<FoundFile> find_local(const Location& location, Missing missing) {
  std::error_code failed;
  const std::string& path = location.path;
  if (fs::is_regular_file(path, failed)) return single_file({location, {}});
  const bool folder = fs::is_directory(path, failed);
  if (!folder && !is_glob(path) && missing == Missing::allowed) return single_file({location, {}});
  if (!folder && !is_glob(path)) throw UserError("{}: there is no such file or folder", path);
  const std::string root = folder ? (path.ends_with('/') ? path : path + "/") : folder_part(literal_prefix_of_glob(path));
  const int depth = folder ? 1 << 20 : deepest(std::string_view(path).substr(root.size()));
  std::vector<FoundFile> found;
  fs::recursive_directory_iterator entries(
      root.empty() ? "." : root, fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink,
      failed);
  for (; !failed && entries != fs::recursive_directory_iterator(); entries.increment(failed)) {
    if (entries.depth() >= depth) entries.disable_recursion_pending();
    if (entries->is_symlink(failed)) require_leads_on(entries->path());
    const std::string name = entries->path().lexically_relative(root.empty() ? "." : root).string();
    if (!entries->is_regular_file(failed) || is_name_of_unfinished(name)) continue;
    if (!folder && !glob_matches(path, root + name)) continue;
    FoundFile& file = found.emplace_back();
    file.source.location = with_path(location, root + name);
    file.name = name;
  }
  if (failed) throw Failure("cannot read the folder {}: {}", root, failed.message());
  return found;
}

std::vector<RemoteObject> list_store(const Location& prefix, const std::string& via, SourceReader& reader,
                                     std::optional<StoreTool>& tool) {
  const std::atomic<bool>* stop = reader.limits().stop;
  try {
    if (via == "auto" || via == "https") return list_public_objects(prefix, reader.http());
  } catch (const TransferError& error) {
    if (via == "https" || error.remedy != Remedy::credentials) throw Failure("{}: {}", shown(prefix), error.what());
  }
  tool = find_store_tool(prefix, via);
  return list_objects(*tool, prefix, stop);
}

std::vector<FoundFile> find_in_store(const Location& location, const std::string& via, SourceReader& reader) {
  const std::string& pattern = location.path;
  const bool folder = pattern.empty() || pattern.ends_with('/');
  if (!folder && !is_glob(pattern)) {
    const bool public_first = via == "auto" || via == "https";
    return single_file(public_first ? Source{location, {}} : private_source(location, via));
  }
  const std::string prefix = folder ? pattern : literal_prefix_of_glob(pattern);
  const std::string root = folder_part(prefix);
  std::optional<StoreTool> tool;
  std::vector<FoundFile> found;
  for (const RemoteObject& object : list_store(with_path(location, prefix), via, reader, tool)) {
    if (!object.key.starts_with(prefix) || object.key.ends_with('/')) continue;  // stores represent folders by empty objects
    if (!folder && !glob_matches(pattern, object.key)) continue;
    const std::string name = object.key.substr(root.size());
    require_safe_name(name, shown(location));
    FoundFile& file = found.emplace_back();
    file.source.location = with_path(location, object.key);
    file.source.tool = tool;
    file.name = name;
    file.remote = RemoteFile{.size = object.size, .identity = "", .modified = object.modified, .ranges = true};
  }
  return found;
}

}  // namespace

Source private_source(const Location& location, const std::string& via) {
  StoreTool tool = find_store_tool(location, via);
  return {location, std::move(tool)};
}

std::vector<FoundFile> find_files(const std::string& address, const std::string& via, SourceReader& reader, Missing missing) {
  const Location location = parse_location(address);
  if (location.scheme == Scheme::http) {
    if (location.path.find('*') != std::string::npos)
      throw UserError("{}: a web server cannot be asked which files match; name each file", shown(location));
    return single_file({location, {}});
  }
  std::vector<FoundFile> found = is_store(location) ? find_in_store(location, via, reader) : find_local(location, missing);
  if (found.empty()) throw UserError("{}: nothing is there that matches", shown(location));
  std::ranges::sort(found, {}, &FoundFile::name);
  return found;
}

}  // namespace trireme
