// The files of a checkpoint, by their names in it: a folder, a single file, or an archive of NeMo (.nemo: tar, also compressed
// with gzip). Nothing is written, but for a compressed archive, which is unpacked to a temporary file without a name.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "convert/torch/byte_view.h"

namespace trireme {

class FileSet {
 public:
  // A folder with the files in it and its subfolders, or a tar archive. UserError if it is not there or has no end; Failure if an
  // archive is damaged.
  static FileSet open(const std::filesystem::path& named);
  // One file, under its own name.
  static FileSet of_file(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return path_; }
  std::string where(const std::string& name) const;  // how errors name a file
  std::vector<std::string> names() const;            // "mp_rank_00/model_optim_rng.pt", in order
  bool has(const std::string& name) const { return members_.contains(name); }
  // The contents, mapped. They stay as long as this. The file must be there.
  ByteView view(const std::string& name) const;

 private:
  struct Member {
    std::filesystem::path file;             // of a folder; mapped when it is first asked for
    std::span<const std::byte> bytes = {};  // of an archive
  };
  void add_folder();
  void add_archive(MappedFile archive);

  std::filesystem::path path_;
  bool is_archive_ = false;
  std::map<std::string, Member> members_;
  mutable std::map<std::string, MappedFile> mapped_;
};

}  // namespace trireme
