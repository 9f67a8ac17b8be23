// Arrays in numpy's .npy files: one or two dimensions of whole numbers, in row order. Read and written through memory, so that
// size costs no time.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "base/large_array.h"
#include "base/mapped_file.h"
#include "data/numpy/number_array.h"

namespace trireme {

struct NpyShape {
  NumberType type = NumberType::int32;
  int64_t rows = 0;
  int64_t columns = 0;  // 0: one dimension

  int64_t count() const { return columns == 0 ? rows : rows * columns; }
  int64_t bytes() const { return count() * size_of(type); }
  bool operator==(const NpyShape&) const = default;
};

std::string describe(const NpyShape& shape);  // "int32[100,2]"

class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path);  // UserError that names file and byte when it is not such an array

  const NpyShape& shape() const { return shape_; }
  NumberArray numbers() const { return {data_, shape_.type, shape_.count()}; }

 private:
  MappedFile file_;
  NpyShape shape_;
  const std::byte* data_ = nullptr;
};

// A new array in a file, or in memory when no path is given; zeros at first. A file is seen under its name from commit() on.
// Until then an array of up to a gibibyte is in memory, where numbers can be exchanged all over it without a page of a file for
// each; a larger one is in its file from the beginning.
class NewNumbers {
 public:
  NewNumbers(const std::filesystem::path& path, const NpyShape& shape);

  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  NumberArray numbers() const { return {data_.data(), shape_.type, shape_.count()}; }
  void commit();  // views that were taken before are void

 private:
  void create_file();

  std::filesystem::path path_;
  NpyShape shape_;
  std::optional<MappedOutput> file_;
  LargeArray<std::byte> memory_;
  std::span<std::byte> data_;
};

}  // namespace trireme
