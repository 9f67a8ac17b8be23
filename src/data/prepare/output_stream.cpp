#include "data/prepare/output_stream.h"

#include <cerrno>
#include <system_error>

#include "base/crc32c.h"
#include "base/error.h"

namespace trireme::prepare {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

OutputStream::OutputStream(const std::filesystem::path& path, const std::filesystem::path& work_folder)
    : path_(path), temporary_(work_folder / path.filename()), file_(File::create(temporary_)) {
  buffer_.reserve(kBufferBytes);
}

void OutputStream::put_bytes(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  bytes_ += std::ssize(bytes);
  if (bytes.size() >= kBufferBytes) {
    file_.write(bytes);
    checksum_ = crc32c(bytes, checksum_);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void OutputStream::flush() {
  file_.write(buffer_);
  checksum_ = crc32c(buffer_, checksum_);
  buffer_.clear();
}

void OutputStream::finish() {
  flush();
  file_.sync();
}

void OutputStream::publish() {
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw Failure("cannot write {}: {}", path_.string(), error.message());
}

nlohmann::json OutputStream::description() const { return describe_file(path_, bytes_, checksum_); }

nlohmann::json describe_file(const std::filesystem::path& path, int64_t bytes, uint32_t checksum) {
  return {{"file", path.string()}, {"bytes", bytes}, {"crc32c", fmt::format("{:08x}", checksum)}};
}

}  // namespace trireme::prepare
