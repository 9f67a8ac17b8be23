#include "convert/torch/torch_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "convert/hf_files.h"
#include "tensor/dtype.h"

namespace trireme {
namespace {

struct TypeRow {
  std::string_view type, storage;
  TorchType kind;
  int64_t bytes;
};
constexpr std::array kTypes = {
    TypeRow{"float32", "FloatStorage", TorchType::f32, 4},     TypeRow{"float64", "DoubleStorage", TorchType::f64, 8},
    TypeRow{"float16", "HalfStorage", TorchType::f16, 2},      TypeRow{"bfloat16", "BFloat16Storage", TorchType::bf16, 2},
    TypeRow{"int64", "LongStorage", TorchType::other, 8},      TypeRow{"int32", "IntStorage", TorchType::other, 4},
    TypeRow{"int16", "ShortStorage", TorchType::other, 2},     TypeRow{"int8", "CharStorage", TorchType::other, 1},
    TypeRow{"uint8", "ByteStorage", TorchType::other, 1},      TypeRow{"bool", "BoolStorage", TorchType::other, 1},
    TypeRow{"untyped", "UntypedStorage", TorchType::other, 1},
};

template <class Bits, class Convert>
void convert_strided(const TorchTensor& tensor, int64_t begin, std::span<float> to, const Convert& convert) {
  const std::byte* data = tensor.storage->entry.bytes.data();
  const auto at = [&](int64_t element) {
    Bits bits;
    std::memcpy(&bits, data + static_cast<size_t>(element) * sizeof(Bits), sizeof(Bits));
    return convert(bits);
  };
  if (tensor.is_contiguous()) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = at(tensor.offset + begin + static_cast<int64_t>(i));
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    int64_t rest = begin + static_cast<int64_t>(i), element = tensor.offset;
    for (int d = tensor.shape.rank(); d-- > 0;) {
      element += rest % tensor.shape[d] * tensor.strides[static_cast<size_t>(d)];
      rest /= tensor.shape[d];
    }
    to[i] = at(element);
  }
}

}  // namespace

TorchTypeFacts torch_type_named(std::string_view global) {
  const std::string_view name = global.substr(global.rfind('.') + 1);
  const auto found = std::ranges::find_if(kTypes, [&](const TypeRow& row) { return name == row.type || name == row.storage; });
  if (found == kTypes.end()) return {TorchType::other, 0, name};
  return {found->kind, found->bytes, found->type};
}

bool TorchTensor::is_contiguous() const {
  int64_t stride = 1;
  for (int d = shape.rank(); d-- > 0;) {
    if (shape[d] != 1 && strides[static_cast<size_t>(d)] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

TorchTensor TorchTensor::rows(int64_t begin, int64_t count) const {
  CHECK(shape.rank() > 0 && begin >= 0 && count >= 0 && begin + count <= shape[0]);
  TorchTensor part = *this;
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = count;
  part.shape = Shape(dims);
  part.offset += begin * strides[0];
  return part;
}

void TorchTensor::read(int64_t begin, std::span<float> to) const {
  CHECK(begin >= 0 && narrow<int64_t>(to.size()) <= shape.count() - begin);
  if (!storage->is_checked) {
    require_checksum(storage->entry, storage->where);
    storage->is_checked = true;
  }
  switch (type.type) {
    case TorchType::f32:
      return convert_strided<float>(*this, begin, to, [](float value) { return value; });
    case TorchType::f64:
      return convert_strided<double>(*this, begin, to, [](double value) { return static_cast<float>(value); });
    case TorchType::f16:
      return convert_strided<uint16_t>(*this, begin, to, [](uint16_t bits) { return to_float(f16{bits}); });
    case TorchType::bf16:
      return convert_strided<uint16_t>(*this, begin, to, [](uint16_t bits) { return to_float(bf16{bits}); });
    case TorchType::other:
      throw UserError("{}: its elements are {}; weights are read as float32, bfloat16, float16 or float64", storage->where,
                      type.name);
  }
  CHECK_NEVER("unknown element type");
}

}  // namespace trireme
