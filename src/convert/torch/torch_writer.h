// Writes files that torch.load reads, also with weights_only=True: dicts, numbers, texts and tensors.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace trireme {

struct TorchOutput {
  std::string name;
  Shape shape;
};

// One file: `fields` are entries of the dict that it holds, and `tensors` the entries of a dict in it, under "model".
class TorchFileWriter {
 public:
  struct Field {
    std::string key;
    enum class Kind : uint8_t { integer, real, texts } kind = Kind::integer;
    int64_t integer = 0;
    double real = 0;
    std::vector<std::pair<std::string, std::string>> texts;  // a dict of texts
  };

  // Writes everything but the elements. `dtype` is f32 or bf16.
  TorchFileWriter(const std::filesystem::path& path, const std::vector<Field>& fields, std::vector<TorchOutput> tensors,
                  DType dtype);

  // The elements of the next tensor, in the order of `tensors`.
  void write(std::span<const float> values);
  void close();  // writes the table of contents; all tensors must have been written

 private:
  struct Record {
    std::string name;
    uint32_t checksum = 0;
    uint64_t bytes = 0, header = 0;
  };
  void add(const std::string& name, std::span<const std::byte> bytes);

  File file_;
  std::string folder_;
  std::vector<TorchOutput> tensors_;
  DType dtype_;
  std::vector<Record> records_;
  uint64_t at_ = 0;
  size_t next_ = 0;
};

}  // namespace trireme
