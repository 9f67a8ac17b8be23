// The safetensors file format:
//   8 bytes   N, the length of the header, little endian
//   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, ..., "__metadata__": {text: text}},
//             filled up with spaces so that the data starts at a multiple of 8
//   the rest  the tensors, without gaps or overlaps; offsets count from here
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace trireme {

// An element type of the format that tensors here do not have: F16, BOOL, ...
struct ForeignType {
  const char* name;
  int64_t bytes;
};

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0;                     // in the file
  const ForeignType* foreign = nullptr;  // if there, `dtype` means nothing

  int64_t bytes() const { return shape.count() * (foreign != nullptr ? foreign->bytes : size_of(dtype)); }
  std::string type_name() const;  // "F32", "F16", ...
};

struct SafetensorsHeader {
  std::string bytes;                       // how the file begins: the length and the JSON
  std::vector<SafetensorsTensor> tensors;  // in the order of their places
  std::map<std::string, std::string> metadata;
  int64_t file_bytes = 0;
};

// Lays the tensors out, those with wider elements first so that each is aligned to its elements, otherwise in the given order;
// their `begin` is set here. Names must differ.
SafetensorsHeader make_safetensors_header(std::vector<SafetensorsTensor> tensors,
                                          std::map<std::string, std::string> metadata = {});

// Whether a header may name element types that tensors here do not have. Files of others hold such tensors, and whoever reads
// them widens or passes over them.
enum class ForeignTypes : uint8_t { refused, accepted };

// Reads the header and checks everything in it against the format and the size of the file. A file that does not hold is a
// Failure, whatever its bytes are.
SafetensorsHeader read_safetensors_header(const File& file, ForeignTypes foreign = ForeignTypes::refused);

const char* safetensors_name_of(DType dtype);  // "F32", "BF16", ...
DType safetensors_dtype(const std::string& name, const std::string& where);

}  // namespace trireme
