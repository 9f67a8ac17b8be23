// A tensor in a file of torch: a view of a storage, which is a run of bytes in the file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convert/torch/zip_archive.h"
#include "tensor/tensor.h"

namespace trireme {

// The element types of torch that weights are read from, and all others.
enum class TorchType : uint8_t { f32, f64, f16, bf16, other };

struct TorchTypeFacts {
  TorchType type = TorchType::other;
  int64_t bytes = 0;      // 0: unknown
  std::string_view name;  // of torch: "float32"
};
// By the name of a type or of a storage: "torch.float32", "torch.FloatStorage". For an unknown name the width is 0.
TorchTypeFacts torch_type_named(std::string_view global);

struct TorchStorage {
  ZipArchive::Entry entry;
  std::string where;
  bool is_checked = false;  // against its checksum
};

struct TorchTensor {
  std::shared_ptr<TorchStorage> storage;
  TorchTypeFacts type;
  Shape shape;
  std::vector<int64_t> strides;  // in elements
  int64_t offset = 0;            // of the first element, in elements

  bool is_contiguous() const;
  // The entries [begin, begin + count) of the first dimension.
  TorchTensor rows(int64_t begin, int64_t count) const;
  // Converts `to.size()` elements from element `begin` of the tensor on, the last dimension fastest, to f32. UserError for
  // elements that are not floating-point numbers. Failure if the storage is damaged.
  void read(int64_t begin, std::span<float> to) const;
};

}  // namespace trireme
