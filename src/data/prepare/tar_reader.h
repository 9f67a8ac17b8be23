// Streams the files of a tar archive. Reads what GNU tar, BSD tar and Python write: ustar, and long names of GNU and pax. Yields
// plain files only; folders and links are skipped.
#pragma once

#include <cstdint>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme::prepare {

class TarReader final : public ByteSource {
 public:
  static constexpr size_t kRecord = 512;

  // Returns whether a record is the first record of a tar archive.
  static bool is_header(std::span<const char> record);

  explicit TarReader(ByteSource& source) : source_(source) {}

  bool next();  // advances to the next file; false at the end of the archive
  const std::string& name() const { return name_; }

  size_t read(std::span<char> to) override;  // reads from the current file

 private:
  void read_exactly(std::span<char> to);
  void skip_rest();
  std::string read_long_field(int64_t size);
  void apply_pax(const std::string& records);

  ByteSource& source_;
  int64_t at_ = 0;    // offset in the archive
  int64_t left_ = 0;  // bytes left in the current file
  int64_t padding_ = 0;
  std::string name_, long_name_;
  int64_t long_size_ = -1;
};

}  // namespace trireme::prepare
