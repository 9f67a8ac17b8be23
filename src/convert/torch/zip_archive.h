// ZIP archives as torch.save writes them: entries that are stored without compression, each in a place of its own.
#pragma once

#include <map>
#include <string>

#include "convert/torch/byte_view.h"

namespace trireme {

class ZipArchive {
 public:
  struct Entry {
    std::span<const std::byte> bytes;
    uint32_t checksum = 0;  // crc32; 0 also if the writer made none
  };

  // Checks the table of contents: names that occur once, sizes, places that neither overlap nor leave the file. Failure for a
  // damaged archive, UserError for a compressed one.
  explicit ZipArchive(ByteView file);

  static bool is_archive(const ByteView& file);

  const std::string& where() const { return file_.where; }
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const Entry* find(std::string_view name) const;

 private:
  struct Directory {
    uint64_t begin = 0, bytes = 0, entries = 0;
  };
  Directory find_directory() const;
  void read_entries(const Directory& directory);
  std::span<const std::byte> bytes_at(uint64_t header, std::string_view name, uint64_t bytes) const;

  ByteView file_;
  std::map<std::string, Entry, std::less<>> entries_;
};

// Failure if the bytes are not those that were written.
void require_checksum(const ZipArchive::Entry& entry, const std::string& where);

}  // namespace trireme
