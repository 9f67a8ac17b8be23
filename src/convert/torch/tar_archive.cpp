#include "convert/torch/tar_archive.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBlock = 512;
constexpr uint64_t kLongestTarName = 4096;

std::string_view text_field(std::string_view header, size_t begin, size_t length) {
  const std::string_view field = header.substr(begin, length);
  return field.substr(0, field.find('\0'));
}

// A number in octal digits, or, with the first bit set, in the bytes themselves.
std::optional<uint64_t> number_field(std::string_view header, size_t begin, size_t length) {
  const std::string_view field = header.substr(begin, length);
  uint64_t value = 0;
  if ((static_cast<uint8_t>(field[0]) & 0x80) != 0) {
    for (size_t i = 1; i < length; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = (value << 8) | static_cast<uint8_t>(field[i]);
    }
    return value;
  }
  for (const char digit : field) {
    if (digit == ' ' || digit == '\0') continue;
    if (digit < '0' || digit > '7' || value >> 60 != 0) return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(digit - '0');
  }
  return value;
}

bool has_right_checksum(std::string_view header) {
  constexpr size_t kBegin = 148, kLength = 8;
  uint64_t sum = 0;
  for (size_t i = 0; i < header.size(); ++i)
    sum += i >= kBegin && i < kBegin + kLength ? uint64_t{' '} : static_cast<uint8_t>(header[i]);
  return number_field(header, kBegin, kLength) == sum;
}

// Names and sizes that do not fit in a header, from the entries before it.
struct LongFields {
  std::string name;
  std::optional<uint64_t> size;
};

// Lines of "LENGTH KEY=VALUE\n".
void read_pax(std::string_view text, const std::string& where, LongFields& fields) {
  while (!text.empty()) {
    uint64_t length = 0;
    const size_t space = text.find(' ');
    for (const char digit : text.substr(0, std::min<size_t>(space, 10))) {
      if (digit < '0' || digit > '9') length = text.size() + 1;
      length = length * 10 + static_cast<uint64_t>(digit - '0');
    }
    if (space == std::string_view::npos || length > text.size() || length < space + 2)
      throw Failure("{}: damaged: a pax header", where);
    const std::string_view line = text.substr(space + 1, length - space - 2);
    const size_t equals = line.find('=');
    const std::string_view key = line.substr(0, equals), value = equals == std::string_view::npos ? "" : line.substr(equals + 1);
    if (key == "path") fields.name = std::string(value.substr(0, kLongestTarName));
    if (key == "size") {
      uint64_t size = 0;
      for (const char digit : value) {
        if (digit < '0' || digit > '9' || size >> 59 != 0) throw Failure("{}: damaged: a pax header", where);
        size = size * 10 + static_cast<uint64_t>(digit - '0');
      }
      fields.size = size;
    }
    text.remove_prefix(length);
  }
}

std::string without_dot(const std::string& name) { return name.starts_with("./") ? name.substr(2) : name; }

}  // namespace

std::map<std::string, std::span<const std::byte>> read_tar(const ByteView& archive) {
  std::map<std::string, std::span<const std::byte>> files;
  LongFields fields;
  const auto fail = [&](uint64_t at) { throw Failure("{}: damaged: the tar header at byte {}", archive.where, at); };
  for (uint64_t at = 0;;) {
    if (!archive.has(at, kBlock)) throw Failure("{}: damaged: its end is missing; copy the file again", archive.where);
    const std::string_view header = archive.text().substr(at, kBlock);
    if (header.find_first_not_of('\0') == std::string_view::npos) break;
    if (!has_right_checksum(header)) fail(at);
    const std::string_view prefix = header.substr(257, 5) == "ustar" && header[262] == '\0' ? text_field(header, 345, 155) : "";
    std::string name = std::string(prefix) + (prefix.empty() ? "" : "/") + std::string(text_field(header, 0, 100));
    const std::optional<uint64_t> short_size = number_field(header, 124, 12);
    if (!short_size) fail(at);
    const char type = header[156];
    const bool is_file = type == '0' || type == '\0' || type == '7';
    const uint64_t size = is_file && fields.size ? *fields.size : type == '5' ? 0 : *short_size;
    const auto bytes = archive.part(at + kBlock, size);
    const std::string_view contents = archive.text().substr(at + kBlock, size);
    if (type == 'L') {
      fields.name = std::string(text_field(contents, 0, std::min<uint64_t>(size, kLongestTarName)));
    } else if (type == 'x') {
      read_pax(contents, archive.where, fields);
    } else if (type != 'g') {
      if (!fields.name.empty()) name = fields.name;
      fields = {};
      if (!is_file && type != '5')
        throw UserError("{}: {} is a link or a device; an archive of NeMo has files only", archive.where, json_excerpt(name));
      if (is_file && !files.emplace(without_dot(name), bytes).second)
        throw Failure("{}: damaged: {} is there twice", archive.where, json_excerpt(name));
    }
    if (size > archive.size() - at - kBlock) fail(at);
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return files;
}

bool is_gzip(const ByteView& file) { return file.has(0, 2) && file.number(0, 2) == 0x8b1f; }

namespace {

// zlib's state, freed on every way out.
class Inflater {
 public:
  Inflater() { CHECK(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK); }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& stream() { return stream_; }

 private:
  z_stream stream_{};
};

// A file that is removed when this is destroyed; its mapping stays.
struct TemporaryFile {
  fs::path path = partial_name(fs::temp_directory_path() / "trireme-nemo");
  ~TemporaryFile() { ::unlink(path.c_str()); }
};

}  // namespace

MappedFile unpack_gzip(const ByteView& file) {
  constexpr int64_t kKeepFree = int64_t{1} << 30;
  constexpr uint64_t kPiece = 1 << 22, kCheckEvery = uint64_t{1} << 28;
  // Weights hardly shrink. A file that grows a hundred times holds something else.
  constexpr uint64_t kLargestGrowth = 100;
  const TemporaryFile temporary;
  File to = File::create(temporary.path);
  Inflater inflater;
  z_stream& stream = inflater.stream();
  std::vector<Bytef> piece(kPiece);
  uint64_t read = 0, written = 0, checked = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const uint64_t now = std::min<uint64_t>(kPiece, file.size() - read);
      if (now == 0) throw Failure("{}: damaged: its end is missing; copy the file again", file.where);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file.bytes.data() + read));  // zlib only reads it
      stream.avail_in = static_cast<uInt>(now);
      read += now;
    }
    stream.next_out = piece.data();
    stream.avail_out = static_cast<uInt>(kPiece);
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw Failure("{}: damaged: it cannot be decompressed", file.where);
    const uint64_t count = kPiece - stream.avail_out;
    if (written / kCheckEvery >= checked) {
      ++checked;
      if (free_bytes(temporary.path.parent_path()) < kKeepFree)
        throw UserError("{}: no room to unpack it in {}; decompress it with gzip -d, or set TMPDIR to a larger folder",
                        file.where, temporary.path.parent_path().string());
    }
    to.write(std::as_bytes(std::span(piece).first(count)));
    written += count;
    if (written > kPiece + file.size() * kLargestGrowth)
      throw UserError("{}: grows more than {} times when it is unpacked, which no weights do; it is not read", file.where,
                      kLargestGrowth);
  }
  return MappedFile::open(temporary.path);
}

}  // namespace trireme
