#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "report/readers.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little endian, and so are the machines we know");

template <class T>
T load(std::string_view bytes) {
  CHECK(bytes.size() >= sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// ------------------------------------------------------------------------------------------------------------- protobuf

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t varint = 0;     // for Wire::varint
  std::string_view bytes;  // for the others
};

// Takes a varint from the front of `bytes`; returns nothing if there is none.
std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 10); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

// Iterates over the fields of a message. Malformed bytes end it early.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  std::optional<Field> next() {
    const std::optional<uint64_t> key = take_varint(rest_);
    if (!key) return std::nullopt;
    Field field{.number = static_cast<uint32_t>(*key >> 3), .wire = static_cast<Wire>(*key & 7)};
    switch (field.wire) {
      case Wire::varint: {
        const std::optional<uint64_t> value = take_varint(rest_);
        if (!value) return std::nullopt;
        field.varint = *value;
        return field;
      }
      case Wire::fixed64:
        return take_bytes(field, 8);
      case Wire::fixed32:
        return take_bytes(field, 4);
      case Wire::bytes: {
        const std::optional<uint64_t> size = take_varint(rest_);
        return size ? take_bytes(field, *size) : std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Field> take_bytes(Field field, uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    field.bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

// --------------------------------------------------------------------------------------------------------------- events

// Returns the value of a one-element tensor: TensorProto{dtype = 1, tensor_content = 4, float_val = 5, double_val = 6, int_val =
// 7, int64_val = 10}.
std::optional<double> scalar_of_tensor(std::string_view tensor) {
  enum Type : uint64_t { kFloat = 1, kDouble = 2, kInt32 = 3, kInt64 = 9 };
  uint64_t type = 0;
  std::string_view content;
  std::optional<double> value;
  Message message(tensor);
  while (const std::optional<Field> field = message.next()) {
    const bool is_varint = field->wire == Wire::varint;
    if (field->number == 1 && is_varint) type = field->varint;
    if (field->number == 4) content = field->bytes;
    if (field->number == 5 && field->bytes.size() == 4) value = load<float>(field->bytes);
    if (field->number == 6 && field->bytes.size() == 8) value = load<double>(field->bytes);
    if (field->number == 7 || field->number == 10) {  // packed in bytes; old writers did not pack
      std::string_view packed = field->bytes;
      const std::optional<uint64_t> integer = is_varint ? field->varint : take_varint(packed);
      if (integer) value = static_cast<double>(static_cast<int64_t>(*integer));
    }
  }
  if (type == kFloat && content.size() == 4) return load<float>(content);
  if (type == kDouble && content.size() == 8) return load<double>(content);
  if (type == kInt32 && content.size() == 4) return load<int32_t>(content);
  if (type == kInt64 && content.size() == 8) return static_cast<double>(load<int64_t>(content));
  return value;
}

// Summary{value = 1 {tag = 1, simple_value = 2, tensor = 8}}
void read_summary(std::string_view summary, int64_t step, SeriesBuilder& series) {
  Message values(summary);
  while (const std::optional<Field> value = values.next()) {
    if (value->number != 1) continue;
    std::string_view tag;
    std::optional<double> number;
    Message message(value->bytes);
    while (const std::optional<Field> field = message.next()) {
      if (field->number == 1) tag = field->bytes;
      if (field->number == 2 && field->wire == Wire::fixed32) number = load<float>(field->bytes);
      if (field->number == 8) number = scalar_of_tensor(field->bytes);
    }
    if (number && !tag.empty()) series.add(tag, step, *number);
  }
}

bool is_start(std::string_view session_log) {
  constexpr uint64_t kStart = 1;
  const std::optional<Field> status = Message(session_log).next();
  return status && status->number == 1 && status->varint == kStart;
}

// Event{wall_time = 1, step = 2, summary = 5, session_log = 7}
void read_event(std::string_view event, Timestamps timestamps, SeriesBuilder& series) {
  int64_t step = 0;
  double wall_time = 0;
  std::string_view summary, session_log;
  Message message(event);
  while (const std::optional<Field> field = message.next()) {
    if (field->number == 1 && field->wire == Wire::fixed64) wall_time = load<double>(field->bytes);
    if (field->number == 2) step = static_cast<int64_t>(field->varint);
    if (field->number == 5) summary = field->bytes;
    if (field->number == 7) session_log = field->bytes;
  }
  if (is_start(session_log)) series.forget_from(step);
  read_summary(summary, step, series);
  if (timestamps == Timestamps::kept && !summary.empty()) series.add(kTimestamp, step, wall_time);
}

// -------------------------------------------------------------------------------------------------------------- records

constexpr size_t kHeaderBytes = 12, kTrailerBytes = 4;  // length and its checksum; checksum of the data

bool has_checksum(std::string_view bytes, std::string_view checksum) {
  const uint32_t crc = crc32c(bytes_of(bytes));
  return std::rotr(crc, 15) + 0xa282ead8 == load<uint32_t>(checksum);
}

class EventParser final : public LogParser {
 public:
  explicit EventParser(Timestamps timestamps) : timestamps_(timestamps) {}

  size_t read(std::string_view bytes) override {
    size_t at = 0;
    is_damaged = false;
    for (std::string_view rest = bytes; !is_damaged && rest.size() >= kHeaderBytes; rest = bytes.substr(at)) {
      is_damaged = !has_checksum(rest.substr(0, 8), rest.substr(8));
      const uint64_t size = load<uint64_t>(rest);
      if (is_damaged || size > rest.size() - kHeaderBytes || rest.size() - kHeaderBytes - size < kTrailerBytes) break;
      const std::string_view event = rest.substr(kHeaderBytes, size);
      is_damaged = !has_checksum(event, rest.substr(kHeaderBytes + size));
      if (is_damaged) break;
      read_event(event, timestamps_, series);
      at += kHeaderBytes + size + kTrailerBytes;
    }
    return at;
  }

  bool is_damaged = false;  // whether a damaged record ended the last call

 private:
  const Timestamps timestamps_;
};

}  // namespace

bool looks_like_event_file(std::string_view first_bytes) {
  return first_bytes.size() >= kHeaderBytes && has_checksum(first_bytes.substr(0, 8), first_bytes.substr(8));
}

std::unique_ptr<LogParser> event_parser(Timestamps timestamps) { return std::make_unique<EventParser>(timestamps); }

RunLog read_event_files(const std::vector<std::string>& paths) {
  RunLog log;
  log.files = paths;
  std::ranges::sort(log.files);
  EventParser parser(Timestamps::left_out);
  for (const std::string& path : log.files) {
    const std::string bytes = read_log_file(path);
    if (!bytes.empty() && !looks_like_event_file(bytes)) throw UserError("{} is not a TensorBoard event file", path);
    const size_t end = parser.read(bytes);
    const std::string trouble =
        parser.is_damaged ? fmt::format("the record at byte {} is damaged", end) : "its last record is not whole";
    if (end < bytes.size()) log.notes.push_back(fmt::format("{}: {}; what comes before it was read", path, trouble));
  }
  log.series = parser.series.take();
  if (log.series.empty()) throw UserError("{} holds no scalars", log.files.front());
  return log;
}

}  // namespace trireme
