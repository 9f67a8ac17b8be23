#include "convert/torch/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

// Signatures and sizes of the fixed parts of the format (APPNOTE.TXT of PKWARE, 4.3).
constexpr uint64_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint64_t kLongestComment = 0xffff;
constexpr uint64_t kIn64 = 0xffffffff;  // a 32-bit field whose value is in the zip64 part
constexpr uint16_t kZip64Field = 1;

// The values of the zip64 part of an entry's extra field, for the fields that say so, in this order.
void read_zip64(const ByteView& extra, std::initializer_list<uint64_t*> fields) {
  for (uint64_t at = 0; extra.has(at, 4);) {
    const uint64_t kind = extra.number(at, 2), bytes = extra.number(at + 2, 2);
    at += 4;
    if (kind == kZip64Field) {
      const ByteView values{extra.part(at, bytes), extra.where};
      uint64_t next = 0;
      for (uint64_t* field : fields)
        if (*field == kIn64) {
          *field = values.number(next, 8);
          next += 8;
        }
      return;
    }
    at += bytes;
  }
}

}  // namespace

bool ZipArchive::is_archive(const ByteView& file) { return file.has(0, 4) && file.number(0, 4) == kLocal; }

ZipArchive::ZipArchive(ByteView file) : file_(std::move(file)) { read_entries(find_directory()); }

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

ZipArchive::Directory ZipArchive::find_directory() const {
  if (file_.size() < kEndBytes) throw Failure("{}: damaged: too short for an archive", file_.where);
  const uint64_t last = file_.size() - kEndBytes, first = last > kLongestComment ? last - kLongestComment : 0;
  uint64_t end = last;
  while (file_.number(end, 4) != kEnd) {
    if (end == first) throw Failure("{}: damaged: the table of contents at its end is missing; copy the file again", file_.where);
    --end;
  }
  Directory directory{file_.number(end + 16, 4), file_.number(end + 12, 4), file_.number(end + 10, 2)};
  if (end >= kLocator64Bytes && file_.number(end - kLocator64Bytes, 4) == kLocator64) {
    const uint64_t at = file_.number(end - kLocator64Bytes + 8, 8);
    if (!file_.has(at, kEnd64Bytes) || file_.number(at, 4) != kEnd64)
      throw Failure("{}: damaged: its zip64 table is not where it should be", file_.where);
    directory = {file_.number(at + 48, 8), file_.number(at + 40, 8), file_.number(at + 32, 8)};
  }
  if (!file_.has(directory.begin, directory.bytes) || directory.entries > directory.bytes / kCentralBytes)
    throw Failure("{}: damaged: its table of contents has {} entries in {} bytes", file_.where, directory.entries,
                  directory.bytes);
  return directory;
}

std::span<const std::byte> ZipArchive::bytes_at(uint64_t header, std::string_view name, uint64_t bytes) const {
  const ByteView local{file_.part(header, kLocalBytes), file_.where};
  const uint64_t name_bytes = local.number(26, 2), extra_bytes = local.number(28, 2);
  const uint64_t at = header + kLocalBytes;
  const bool same = local.number(0, 4) == kLocal && file_.has(at, name_bytes) && file_.text().substr(at, name_bytes) == name;
  if (!same) throw Failure("{}: damaged: {} is not where the table of contents says", file_.where, json_excerpt(name));
  return file_.part(at + name_bytes + extra_bytes, bytes);
}

void ZipArchive::read_entries(const Directory& directory) {
  const ByteView table{file_.part(directory.begin, directory.bytes), file_.where};
  struct Place {
    uint64_t begin, end;
  };
  std::vector<Place> places{{directory.begin, file_.size()}};
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (!table.has(at, kCentralBytes) || table.number(at, 4) != kCentral)
      throw Failure("{}: damaged: entry {} of its table of contents", file_.where, i);
    const uint64_t flags = table.number(at + 8, 2), method = table.number(at + 10, 2);
    uint64_t stored = table.number(at + 20, 4), bytes = table.number(at + 24, 4), header = table.number(at + 42, 4);
    const uint64_t name_bytes = table.number(at + 28, 2), extra_bytes = table.number(at + 30, 2);
    table.part(at + kCentralBytes, name_bytes + extra_bytes);
    const std::string_view name = table.text().substr(at + kCentralBytes, name_bytes);
    read_zip64({table.part(at + kCentralBytes + name_bytes, extra_bytes), file_.where}, {&bytes, &stored, &header});
    if (method != 0 || (flags & 1) != 0)
      throw UserError("{}: {} is {}; torch.save stores without compression, and only that is read", file_.where,
                      json_excerpt(name), (flags & 1) != 0 ? "encrypted" : "compressed");
    if (stored != bytes) throw Failure("{}: damaged: {} has two sizes", file_.where, json_excerpt(name));
    const Entry entry{bytes_at(header, name, bytes), static_cast<uint32_t>(table.number(at + 16, 4))};
    if (!entries_.emplace(std::string(name), entry).second)
      throw Failure("{}: damaged: {} is there twice", file_.where, json_excerpt(name));
    places.push_back({header, static_cast<uint64_t>(entry.bytes.data() - file_.bytes.data()) + bytes});
    at += kCentralBytes + name_bytes + extra_bytes + table.number(at + 32, 2);
  }
  std::ranges::sort(places, {}, &Place::begin);
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].begin < places[i - 1].end) throw Failure("{}: damaged: two of its entries overlap", file_.where);
}

void require_checksum(const ZipArchive::Entry& entry, const std::string& where) {
  if (entry.checksum == 0) return;
  uLong crc = crc32_z(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(entry.bytes.data()), entry.bytes.size());
  if (crc != entry.checksum)
    throw Failure("{}: damaged: its checksum is {:08x} and should be {:08x}", where, crc, entry.checksum);
}

}  // namespace trireme
