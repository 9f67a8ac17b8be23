#include "telemetry/log_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace trireme {
namespace {

File open_in_new_folder(const std::filesystem::path& path) {
  if (path.has_parent_path()) create_folders(path.parent_path());
  return File::open_append(path);
}

}  // namespace

LogFile::LogFile(const std::string& path, Notify notify, LogWriters writers)
    : path_(path), notify_(std::move(notify)), writers_(writers), file_(open_in_new_folder(path)), size_(file_.size()) {}

void LogFile::append(std::string_view record) {
  try {
    file_.write(record);
    size_ += static_cast<int64_t>(record.size());
  } catch (const Failure& failure) {
    std::error_code ignored;  // if this fails too, nothing more can be done, and the warning below still applies
    if (writers_ == LogWriters::this_one && std::filesystem::file_size(path_, ignored) > static_cast<uint64_t>(size_) &&
        !ignored) {
      std::filesystem::resize_file(path_, static_cast<uint64_t>(size_), ignored);
    }
    if (!warned_ && notify_)
      notify_(Severity::warning, fmt::format("{}; records are missing from it until that is mended", failure.what()));
    warned_ = true;
  }
}

void LogFile::append_line(std::string& line) {
  line.append(filler_for(line.size() + 1), ' ');
  line += '\n';
  append(line);
}

size_t LogFile::filler_for(size_t record_bytes) const {
  if (writers_ == LogWriters::many) return 0;  // the position of the next record is unknown
  constexpr size_t kPage = 4096;               // the smallest page size; larger ones are multiples of it
  constexpr size_t kLeast = 256, kMore = 64;   // records grow a little: more digits, optional values
  const size_t room = kPage - (static_cast<size_t>(size_) + record_bytes) % kPage;
  const size_t next = std::max(record_bytes + kMore, kLeast);
  return room < std::min(next, kPage) ? room : 0;
}

void LogFile::keep_lines(const std::function<bool(std::string_view)>& wanted) {
  int64_t kept = 0;
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line) && !file.eof();) {  // eof: the line end is missing, so the line is torn
    if (!wanted(line)) break;
    kept += static_cast<int64_t>(line.size()) + 1;
  }
  cut(kept);
}

void LogFile::cut(int64_t size) {
  if (size == size_) return;
  std::error_code error;
  std::filesystem::resize_file(path_, static_cast<uint64_t>(size), error);
  if (error) throw Failure("cannot shorten {}: {}", path_, error.message());
  size_ = size;
}

}  // namespace trireme
