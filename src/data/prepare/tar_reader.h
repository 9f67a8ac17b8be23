// The files of a tar archive, one after the other, as a stream. Reads what GNU tar, BSD tar and Python write: ustar, long names
// of GNU and of pax. Only plain files are given; folders and links are passed over.
#pragma once

#include <cstdint>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme::prepare {

class TarReader final : public ByteSource {
 public:
  static constexpr size_t kRecord = 512;

  // Whether the first record of something is that of a tar archive.
  static bool is_header(std::span<const char> record);

  explicit TarReader(ByteSource& source) : source_(source) {}

  bool next();  // goes to the next file; false at the end of the archive
  const std::string& name() const { return name_; }

  size_t read(std::span<char> to) override;  // of the file it stands at

 private:
  void read_exactly(std::span<char> to);
  void skip_rest();
  std::string read_long_field(int64_t size);
  void apply_pax(const std::string& records);

  ByteSource& source_;
  int64_t at_ = 0;    // in the archive
  int64_t left_ = 0;  // of the file it stands at
  int64_t padding_ = 0;
  std::string name_, long_name_;
  int64_t long_size_ = -1;
};

}  // namespace trireme::prepare
