#include "data/tokenizer/sentencepiece/protobuf_reader.h"

#include <cstring>

#include "base/error.h"

namespace trireme {

bool ProtobufReader::next() {
  if (left_.empty()) return false;
  const uint64_t key = read_varint();
  number_ = key >> 3;
  if (number_ == 0) throw UserError("{}: damaged, or not a sentencepiece model: a field has number 0", source_);
  wire_ = static_cast<Wire>(key & 7);
  switch (wire_) {
    case Wire::varint:
      integer_ = read_varint();
      return true;
    case Wire::fixed64:
      bytes_ = take(8);
      return true;
    case Wire::fixed32:
      bytes_ = take(4);
      return true;
    case Wire::bytes:
      bytes_ = take(read_varint());
      return true;
  }
  throw UserError("{}: damaged, or not a sentencepiece model: field {} has wire type {}", source_, number_, key & 7);
}

uint64_t ProtobufReader::read_varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(take(1)[0]);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  throw UserError("{}: damaged, or not a sentencepiece model: a number has more than 10 bytes", source_);
}

std::string_view ProtobufReader::take(uint64_t count) {
  if (count > left_.size())
    throw UserError("{}: damaged, or not a sentencepiece model: a field of {} bytes where {} are left", source_, count,
                    left_.size());
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}

void ProtobufReader::require(Wire wire) const {
  if (wire_ != wire)
    throw UserError("{}: damaged, or not a sentencepiece model: field {} has wire type {}, not {}", source_, number_,
                    static_cast<int>(wire_), static_cast<int>(wire));
}

uint64_t ProtobufReader::as_integer() const {
  require(Wire::varint);
  return integer_;
}

float ProtobufReader::as_float() const {
  require(Wire::fixed32);
  float value = 0;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view ProtobufReader::as_bytes() const {
  require(Wire::bytes);
  return bytes_;
}

}  // namespace trireme
