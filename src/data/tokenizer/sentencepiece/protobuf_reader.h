// Iterates over the fields of a message in protobuf's wire format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

class ProtobufReader {
 public:
  // `source` names the file in errors.
  ProtobufReader(const std::string& source, std::string_view message) : source_(source), left_(message) {}

  // Moves to the next field; returns false at the end of the message. UserError for malformed bytes.
  bool next();

  uint64_t number() const { return number_; }  // of the field

  // Returns the value of the field. UserError if it has another wire type.
  uint64_t as_integer() const;
  bool as_bool() const { return as_integer() != 0; }
  float as_float() const;
  std::string_view as_bytes() const;

 private:
  enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  uint64_t read_varint();
  std::string_view take(uint64_t count);
  void require(Wire wire) const;

  const std::string& source_;
  std::string_view left_;
  uint64_t number_ = 0, integer_ = 0;
  Wire wire_ = Wire::varint;
  std::string_view bytes_;
};

}  // namespace trireme
