#include "data/prepare/tar_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace trireme::prepare {
namespace {

using Record = std::array<char, TarReader::kRecord>;

struct Field {
  size_t at, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kPrefix{345, 155}, kMagic{257, 5};
constexpr size_t kKindAt = 156;
constexpr int64_t kMaxFieldBytes = 1 << 20;

std::string text_of(std::span<const char> record, Field field) {
  const char* begin = record.data() + field.at;
  return {begin, std::find(begin, begin + field.length, '\0')};
}

// Parses octal digits or, for large numbers, the binary form marked by the top bit of the first byte. Returns -1 if it is
// neither.
int64_t number_of(std::span<const char> record, Field field) {
  const auto bytes = record.subspan(field.at, field.length);
  if ((bytes[0] & 0x80) != 0) {
    uint64_t value = static_cast<unsigned char>(bytes[0]) & 0x7F;
    for (const char byte : bytes.subspan(1)) {
      if (value >> 55 != 0) return -1;
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return static_cast<int64_t>(value);
  }
  int64_t value = 0;
  for (const char c : bytes) {
    if (c >= '0' && c <= '7')
      value = value * 8 + (c - '0');
    else if (c != ' ' && c != '\0')
      return -1;
  }
  return value;
}

bool is_all_zero(std::span<const char> record) {
  return std::ranges::all_of(record, [](char c) { return c == 0; });
}

// The checksum is the sum of all bytes, with its own field counted as spaces.
bool has_right_checksum(std::span<const char> record) {
  int64_t sum = int64_t{' '} * static_cast<int64_t>(kChecksum.length);
  for (size_t i = 0; i < record.size(); ++i)
    if (i < kChecksum.at || i >= kChecksum.at + kChecksum.length) sum += static_cast<unsigned char>(record[i]);
  return sum == number_of(record, kChecksum);
}

}  // namespace

bool TarReader::is_header(std::span<const char> record) {
  return record.size() == kRecord && text_of(record, kMagic) == "ustar" && has_right_checksum(record);
}

bool TarReader::next() {
  Record record;
  for (;;) {
    skip_rest();
    const size_t count = source_.read(record);
    if (count == 0 || is_all_zero(std::span(record).first(count))) return false;
    if (count < record.size()) throw InputError("byte {}: the tar archive is cut off", at_);
    if (!has_right_checksum(record)) throw InputError("byte {}: no tar header where one should be", at_);
    at_ += kRecord;
    left_ = long_size_ >= 0 ? long_size_ : number_of(record, kSize);
    if (left_ < 0) throw InputError("byte {}: a tar header without a size", at_ - static_cast<int64_t>(kRecord));
    padding_ = round_up(left_, kRecord) - left_;
    const char kind = record[kKindAt];
    if (kind == 'L') {
      long_name_ = read_long_field(left_);
      long_name_.resize(std::strlen(long_name_.c_str()));
      continue;
    }
    if (kind == 'x') {
      apply_pax(read_long_field(left_));
      continue;
    }
    name_ = long_name_;
    if (name_.empty()) {
      name_ = text_of(record, kName);
      const std::string prefix = text_of(record, kMagic) == "ustar" ? text_of(record, kPrefix) : "";
      // GNU's own format stores times in ustar's prefix field and never splits names.
      if (!prefix.empty() && record[kMagic.at + kMagic.length] == '\0') name_.insert(0, prefix + "/");
    }
    long_name_.clear();
    long_size_ = -1;
    if (kind == '0' || kind == '\0') return true;
    if (kind >= '1' && kind <= '6') left_ = padding_ = 0;  // links and folders have no contents, even if their size is not 0
  }
}

size_t TarReader::read(std::span<char> to) {
  to = to.first(static_cast<size_t>(std::min<int64_t>(std::ssize(to), left_)));
  read_exactly(to);
  left_ -= std::ssize(to);
  return to.size();
}

void TarReader::read_exactly(std::span<char> to) {
  const size_t count = source_.read(to);
  at_ += static_cast<int64_t>(count);
  if (count < to.size()) throw InputError("byte {}: the tar archive is cut off", at_);
}

void TarReader::skip_rest() {
  std::array<char, 1 << 14> thrown_away;
  for (left_ += std::exchange(padding_, 0); left_ > 0;) read(thrown_away);
}

std::string TarReader::read_long_field(int64_t size) {
  if (size > kMaxFieldBytes) throw InputError("byte {}: a tar header of {} bytes", at_, size);
  std::string field(static_cast<size_t>(size), '\0');
  read(field);
  return field;
}

// Records of the form "LENGTH KEY=VALUE\n"; the length counts the whole record.
void TarReader::apply_pax(const std::string& records) {
  for (size_t at = 0; at < records.size();) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(records.data() + at, records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(end - records.data()) - at;
    if (error != std::errc() || length <= digits + 2 || length > records.size() - at)
      throw InputError("byte {}: a pax header that cannot be read", at_);
    const std::string_view record = std::string_view(records).substr(at + digits + 1, length - digits - 2);
    at += length;
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") long_name_ = value;
    if (key == "size") std::from_chars(value.data(), value.data() + value.size(), long_size_);
  }
}

}  // namespace trireme::prepare
