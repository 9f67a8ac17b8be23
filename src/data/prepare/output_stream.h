// An output file that is being written: front to back under a temporary name, then renamed when complete.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/file.h"

namespace trireme::prepare {

class OutputStream {
 public:
  // `work_folder` must be on the same file system as `path`.
  OutputStream(const std::filesystem::path& path, const std::filesystem::path& work_folder);

  template <class T>
  void put(std::span<const T> values) {
    put_bytes(std::as_bytes(values));
  }
  template <class T>
  void put_value(const T& value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_bytes(std::span<const std::byte> bytes);

  int64_t bytes() const { return bytes_; }
  void finish();   // all of it is on disk when this returns
  void publish();  // renames it to its final name; call finish() first
  nlohmann::json description() const;

 private:
  void flush();

  std::filesystem::path path_, temporary_;
  File file_;
  std::vector<std::byte> buffer_;
  int64_t bytes_ = 0;
  uint32_t checksum_ = 0;
};

nlohmann::json describe_file(const std::filesystem::path& path, int64_t bytes, uint32_t checksum);

}  // namespace trireme::prepare
