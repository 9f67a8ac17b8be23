#include "telemetry/log_file.h"

#include <filesystem>

#include "base/error.h"

namespace trireme {
namespace {

File open_in_new_folder(const std::filesystem::path& path) {
  if (path.has_parent_path()) create_folders(path.parent_path());
  return File::open_append(path);
}

}  // namespace

LogFile::LogFile(const std::string& path, Notify notify)
    : path_(path), notify_(std::move(notify)), file_(open_in_new_folder(path)), size_(file_.size()) {}

void LogFile::append(std::string_view record) {
  try {
    file_.write(record);
    size_ += static_cast<int64_t>(record.size());
  } catch (const Failure& failure) {
    std::error_code ignored;  // if even this fails there is nothing left to do for the file, and the warning is the right one
    if (std::filesystem::file_size(path_, ignored) > static_cast<uint64_t>(size_) && !ignored) {
      std::filesystem::resize_file(path_, static_cast<uint64_t>(size_), ignored);
    }
    if (!warned_ && notify_)
      notify_(fmt::format("warning: {}; records are missing from it until that is mended", failure.what()));
    warned_ = true;
  }
}

void LogFile::cut(int64_t size) {
  if (size == size_) return;
  std::error_code error;
  std::filesystem::resize_file(path_, static_cast<uint64_t>(size), error);
  if (error) throw Failure("cannot shorten {}: {}", path_, error.message());
  size_ = size;
}

}  // namespace trireme
