#include "convert/torch/file_set.h"

#include "convert/torch/tar_archive.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;             // subfolders of a checkpoint
constexpr size_t kMostFiles = 1 << 18;  // a checkpoint has some for each of its ranks

}  // namespace

FileSet FileSet::open(const fs::path& named) {
  FileSet files;
  files.path_ = named;
  std::error_code failed;
  if (fs::is_directory(named, failed)) {
    files.add_folder();
  } else {
    if (!fs::is_regular_file(named, failed)) throw UserError("{} is not there", named.string());
    files.add_archive(MappedFile::open(named));
  }
  return files;
}

FileSet FileSet::of_file(const fs::path& file) {
  FileSet files;
  files.path_ = file.has_parent_path() ? file.parent_path() : ".";
  files.members_.emplace(file.filename().string(), Member{.file = file});
  return files;
}

std::string FileSet::where(const std::string& name) const {
  return is_archive_ ? path_.string() + ": " + name : (path_ / name).string();
}

std::vector<std::string> FileSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) names.push_back(name);
  return names;
}

ByteView FileSet::view(const std::string& name) const {
  const Member& member = members_.at(name);
  if (is_archive_) return {member.bytes, where(name)};
  auto mapped = mapped_.find(name);
  if (mapped == mapped_.end()) mapped = mapped_.emplace(name, MappedFile::open(member.file)).first;
  return {mapped->second.bytes(), where(name)};
}

void FileSet::add_folder() {
  auto at = fs::recursive_directory_iterator(path_, fs::directory_options::follow_directory_symlink);
  for (; at != fs::recursive_directory_iterator(); ++at) {
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    if (!at->is_regular_file()) continue;
    if (members_.size() >= kMostFiles)
      throw UserError("{} has more than {} files; name the folder of one checkpoint", path_.string(), kMostFiles);
    members_.emplace(at->path().lexically_relative(path_).generic_string(), Member{.file = at->path()});
  }
}

void FileSet::add_archive(MappedFile archive) {
  is_archive_ = true;
  if (is_gzip({archive.bytes(), path_.string()})) archive = unpack_gzip({archive.bytes(), path_.string()});
  for (auto& [name, bytes] : read_tar({archive.bytes(), path_.string()}))
    members_.emplace(name, Member{.file = {}, .bytes = bytes});
  mapped_.emplace("", std::move(archive));
}

}  // namespace trireme
