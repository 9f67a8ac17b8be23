// numpy's .npy files: integer arrays of one or two dimensions in row-major order. Files are memory-mapped, so opening does not
// depend on the size.
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
  int64_t columns = 0;  // 0 for one dimension

  int64_t count() const { return columns == 0 ? rows : rows * columns; }
  int64_t bytes() const { return count() * size_of(type); }
  bool operator==(const NpyShape&) const = default;
};

std::string describe(const NpyShape& shape);  // "int32[100,2]"

class NpyFile {
 public:
  explicit NpyFile(const std::filesystem::path& path);  // UserError names the file and the byte if it is not such an array

  const NpyShape& shape() const { return shape_; }
  NumberArray numbers() const { return {data_, shape_.type, shape_.count()}; }

 private:
  MappedFile file_;
  NpyShape shape_;
  const std::byte* data_ = nullptr;
};

// A new, zeroed array in a file, or in memory if no path is given. The file appears under its name at commit(). Until then an
// array of up to 1 GiB stays in memory, so random swaps do not touch file pages; a larger one is in its file from the start.
class NewNumbers {
 public:
  NewNumbers(const std::filesystem::path& path, const NpyShape& shape);

  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  NumberArray numbers() const { return {data_.data(), shape_.type, shape_.count()}; }
  void commit();  // invalidates views taken before

 private:
  void create_file();

  std::filesystem::path path_;
  NpyShape shape_;
  std::optional<MappedOutput> file_;
  LargeArray<std::byte> memory_;
  std::span<std::byte> data_;
};

}  // namespace trireme
