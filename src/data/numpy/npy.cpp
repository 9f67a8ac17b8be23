#include "data/numpy/npy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct TypeName {
  NumberType type;
  std::string_view descr;  // the type string that numpy writes
  const char* name;
};
constexpr std::array<TypeName, 6> kTypeNames{{{NumberType::uint8, "|u1", "uint8"},
                                              {NumberType::int16, "<i2", "int16"},
                                              {NumberType::uint16, "<u2", "uint16"},
                                              {NumberType::int32, "<i4", "int32"},
                                              {NumberType::uint32, "<u4", "uint32"},
                                              {NumberType::int64, "<i8", "int64"}}};

const TypeName& name_row(NumberType type) { return *std::ranges::find(kTypeNames, type, &TypeName::type); }

// Parses the header, a Python dictionary: {'descr': '<i4', 'fortran_order': False, 'shape': (8, 2), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyShape parse() {
    const std::string_view descr = word_after("'descr':", "'", "'");
    const auto type = std::ranges::find(kTypeNames, descr, &TypeName::descr);
    if (type == kTypeNames.end()) refuse(fmt::format("numbers of type '{}'; indices have <i4, <u4, <i8, <i2, <u2 or |u1", descr));
    if (word_after("'fortran_order':", "", ",") != "False") refuse("the array is in column order");
    NpyShape shape{.type = type->type, .rows = 0, .columns = 0};
    std::vector<int64_t> dimensions = numbers(word_after("'shape':", "(", ")"));
    if (dimensions.empty() || dimensions.size() > 2)
      refuse(fmt::format("{} dimensions; indices have one or two", dimensions.size()));
    shape.rows = dimensions[0];
    if (dimensions.size() == 2) shape.columns = dimensions[1];
    if (dimensions.size() == 2 && shape.columns == 0) refuse("no columns");
    int64_t bytes = 0;
    if (__builtin_mul_overflow(shape.rows, std::max<int64_t>(shape.columns, 1) * size_of(shape.type), &bytes))
      refuse("too large");
    return shape;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw UserError("{}: byte 10: {}", path_, why); }

  std::string_view word_after(std::string_view key, std::string_view open, std::string_view close) const {
    size_t at = text_.find(key);
    if (at == std::string_view::npos) refuse(fmt::format("no {} in the header of the array", key));
    at = text_.find_first_not_of(' ', at + key.size());
    if (at == std::string_view::npos || text_.substr(at, open.size()) != open) refuse(fmt::format("{} is not understood", key));
    const size_t begin = at + open.size(), end = text_.find(close, begin);
    if (end == std::string_view::npos) refuse(fmt::format("{} is not understood", key));
    return text_.substr(begin, end - begin);
  }

  std::vector<int64_t> numbers(std::string_view list) const {
    std::vector<int64_t> values;
    while (true) {
      list.remove_prefix(std::min(list.find_first_not_of(" ,"), list.size()));
      if (list.empty()) return values;
      int64_t value = 0;
      const auto [after, error] = std::from_chars(list.data(), list.data() + list.size(), value);
      if (error != std::errc() || value < 0 || value > std::numeric_limits<int64_t>::max() / 64)
        refuse("'shape': is not understood");
      values.push_back(value);
      list.remove_prefix(static_cast<size_t>(after - list.data()));
    }
  }

  std::string_view text_;
  const std::string& path_;
};

// Formats the header as numpy 2 does: the first dimension can grow to 21 digits, and the data starts at a multiple of 64.
std::string make_header(const NpyShape& shape) {
  const std::string rows = std::to_string(shape.rows);
  const std::string dimensions = shape.columns == 0 ? rows + "," : fmt::format("{}, {}", rows, shape.columns);
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", name_row(shape.type).descr, dimensions);
  dictionary.append(21 - rows.size(), ' ');
  const size_t before = kMagic.size() + 4;
  dictionary.append(64 - (before + dictionary.size() + 1) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(dictionary.size() % 256);
  header += static_cast<char>(dictionary.size() / 256);
  return header + dictionary;
}

}  // namespace

std::string describe(const NpyShape& shape) {
  const std::string dimensions =
      shape.columns == 0 ? std::to_string(shape.rows) : fmt::format("{},{}", shape.rows, shape.columns);
  return fmt::format("{}[{}]", name_row(shape.type).name, dimensions);
}

NpyFile::NpyFile(const std::filesystem::path& path) {
  const std::string name = path.string();
  try {
    file_ = MappedFile::open(path);
  } catch (const Failure& failure) {
    throw UserError("{}", failure.what());
  }
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) throw UserError("{}: byte 0: not a numpy array", name);
  if (text.size() < 12) throw UserError("{}: byte {}: the file ends inside its header", name, text.size());
  const int version = std::to_integer<int>(bytes[6]);
  if (version < 1 || version > 3) throw UserError("{}: byte 6: version {} of the numpy format is not known", name, version);
  const size_t length_at = 8, length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + length_at, length_bytes);
  const size_t data_at = length_at + length_bytes + length;
  if (data_at > text.size()) throw UserError("{}: byte {}: the file ends inside its header", name, text.size());
  shape_ = HeaderParser(text.substr(length_at + length_bytes, length), name).parse();
  if (text.size() - data_at != static_cast<size_t>(shape_.bytes()))
    throw UserError("{}: byte {}: {} bytes of data, but {} takes {}", name, data_at, text.size() - data_at, describe(shape_),
                    shape_.bytes());
  data_ = bytes.data() + data_at;
}

NewNumbers::NewNumbers(const std::filesystem::path& path, const NpyShape& shape) : path_(path), shape_(shape) {
  constexpr int64_t kMostInMemory = int64_t{1} << 30;
  if (!path.empty() && shape.bytes() > kMostInMemory) {
    create_file();
    return;
  }
  memory_ = LargeArray<std::byte>(static_cast<size_t>(shape.bytes()));
  data_ = memory_.span();
}

void NewNumbers::create_file() {
  const std::string header = make_header(shape_);
  file_.emplace(MappedOutput::create(path_, std::ssize(header) + shape_.bytes()));
  std::memcpy(file_->bytes().data(), header.data(), header.size());
  data_ = file_->bytes().subspan(header.size());
}

void NewNumbers::commit() {
  if (path_.empty()) return;
  if (!file_) {
    create_file();
    std::ranges::copy(memory_.span(), data_.begin());
    memory_ = {};
  }
  file_->commit();
}

}  // namespace trireme
