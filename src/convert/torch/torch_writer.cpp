#include "convert/torch/torch_writer.h"

#include <zlib.h>

#include <algorithm>
#include <bit>

namespace trireme {
namespace {

// The opcodes of pickle's protocol 2 that the values need.
class PickleWriter {
 public:
  PickleWriter() { text_ = "\x80\x02"; }

  void begin_dict() { text_ += "}("; }
  void end_dict() { text_ += 'u'; }
  void begin_tuple() { text_ += '('; }
  void end_tuple() { text_ += 't'; }
  void text(std::string_view value) {
    text_ += 'X';
    number(value.size(), 4);
    text_ += value;
  }
  void integer(int64_t value) {
    text_ += "\x8a\x08";
    number(static_cast<uint64_t>(value), 8);
  }
  void real(double value) {
    text_ += 'G';
    number(__builtin_bswap64(std::bit_cast<uint64_t>(value)), 8);
  }
  void no() { text_ += '\x89'; }
  void global(std::string_view module, std::string_view name) {
    text_ += 'c';
    text_.append(module).append("\n").append(name).append("\n");
  }
  void call() { text_ += 'R'; }
  void persistent() { text_ += 'Q'; }
  std::string done() && { return std::move(text_) + "."; }

 private:
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  std::string text_;
};

// torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
void put_tensor(PickleWriter& to, const TorchOutput& tensor, DType dtype, size_t key) {
  to.global("torch._utils", "_rebuild_tensor_v2");
  to.begin_tuple();
  to.begin_tuple();
  to.text("storage");
  to.global("torch", dtype == DType::f32 ? "FloatStorage" : "BFloat16Storage");
  to.text(std::to_string(key));
  to.text("cpu");
  to.integer(tensor.shape.count());
  to.end_tuple();
  to.persistent();
  to.integer(0);
  to.begin_tuple();
  for (const int64_t size : tensor.shape.dims()) to.integer(size);
  to.end_tuple();
  to.begin_tuple();
  int64_t stride = tensor.shape.count();
  for (const int64_t size : tensor.shape.dims()) to.integer(stride = div_exact(stride, size));
  to.end_tuple();
  to.no();
  to.global("collections", "OrderedDict");
  to.begin_tuple();
  to.end_tuple();
  to.call();
  to.end_tuple();
  to.call();
}

std::string pickle_of(const std::vector<TorchFileWriter::Field>& fields, const std::vector<TorchOutput>& tensors, DType dtype) {
  PickleWriter to;
  to.begin_dict();
  for (const TorchFileWriter::Field& field : fields) {
    to.text(field.key);
    if (field.kind == TorchFileWriter::Field::Kind::integer) to.integer(field.integer);
    if (field.kind == TorchFileWriter::Field::Kind::real) to.real(field.real);
    if (field.kind != TorchFileWriter::Field::Kind::texts) continue;
    to.begin_dict();
    for (const auto& [key, value] : field.texts) {
      to.text(key);
      to.text(value);
    }
    to.end_dict();
  }
  to.text("model");
  to.begin_dict();
  for (size_t i = 0; i < tensors.size(); ++i) {
    to.text(tensors[i].name);
    put_tensor(to, tensors[i], dtype, i);
  }
  to.end_dict();
  to.end_dict();
  return std::move(to).done();
}

// Fields of a ZIP archive, little endian.
class ZipBytes {
 public:
  ZipBytes& put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  ZipBytes& put(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

constexpr uint64_t kZip64Value = 0xffffffff;
constexpr uint64_t kAlignment = 64;  // of the contents, as torch.save has it, so that they can be mapped
constexpr int kVersion64 = 45;

}  // namespace

TorchFileWriter::TorchFileWriter(const std::filesystem::path& path, const std::vector<Field>& fields,
                                 std::vector<TorchOutput> tensors, DType dtype)
    : file_(File::create(path)), folder_(path.stem().string()), tensors_(std::move(tensors)), dtype_(dtype) {
  CHECK(dtype == DType::f32 || dtype == DType::bf16);
  add("data.pkl", bytes_of(pickle_of(fields, tensors_, dtype)));
  add("byteorder", bytes_of("little"));
}

// All sizes are in the zip64 fields, whose length pads the header so that the contents are aligned.
void TorchFileWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  Record record{folder_ + "/" + name, 0, bytes.size(), at_};
  record.checksum = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  constexpr uint64_t kHeaderBytes = 30, kExtraBytes = 20, kPaddingHeader = 4;
  const uint64_t begin = at_ + kHeaderBytes + record.name.size() + kExtraBytes + kPaddingHeader;
  const uint64_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  ZipBytes header;
  header.put(0x04034b50, 4).put(kVersion64, 2).put(0, 2).put(0, 2).put(0, 2).put(0, 2);
  header.put(record.checksum, 4).put(kZip64Value, 4).put(kZip64Value, 4);
  header.put(record.name.size(), 2).put(kExtraBytes + kPaddingHeader + padding, 2).put(record.name);
  header.put(1, 2).put(16, 2).put(record.bytes, 8).put(record.bytes, 8);
  header.put(0x4246, 2).put(padding, 2).put(std::string(padding, 'Z'));  // the field that torch.save pads with
  file_.write(header.text());
  file_.write(bytes);
  at_ += header.text().size() + bytes.size();
  records_.push_back(std::move(record));
}

void TorchFileWriter::write(std::span<const float> values) {
  CHECK(next_ < tensors_.size() && narrow<int64_t>(values.size()) == tensors_[next_].shape.count());
  const std::string name = "data/" + std::to_string(next_++);
  if (dtype_ == DType::f32) return add(name, std::as_bytes(values));
  std::vector<bf16> narrow_values(values.size());
  std::ranges::transform(values, narrow_values.begin(), [](float value) { return to_bf16(value); });
  add(name, std::as_bytes(std::span(narrow_values)));
}

void TorchFileWriter::close() {
  CHECK_EQ(next_, tensors_.size());
  add("version", bytes_of("3\n"));
  ZipBytes directory;
  for (const Record& record : records_) {
    directory.put(0x02014b50, 4).put(kVersion64, 2).put(kVersion64, 2).put(0, 2).put(0, 2).put(0, 2).put(0, 2);
    directory.put(record.checksum, 4).put(kZip64Value, 4).put(kZip64Value, 4);
    directory.put(record.name.size(), 2).put(28, 2).put(0, 2).put(0, 2).put(0, 2).put(0, 4).put(kZip64Value, 4).put(record.name);
    directory.put(1, 2).put(24, 2).put(record.bytes, 8).put(record.bytes, 8).put(record.header, 8);
  }
  const uint64_t begin = at_, bytes = directory.text().size(), count = records_.size();
  directory.put(0x06064b50, 4).put(44, 8).put(kVersion64, 2).put(kVersion64, 2).put(0, 4).put(0, 4);
  directory.put(count, 8).put(count, 8).put(bytes, 8).put(begin, 8);
  directory.put(0x07064b50, 4).put(0, 4).put(begin + bytes, 8).put(1, 4);
  directory.put(0x06054b50, 4)
      .put(0, 2)
      .put(0, 2)
      .put(0xffff, 2)
      .put(0xffff, 2)
      .put(kZip64Value, 4)
      .put(kZip64Value, 4)
      .put(0, 2);
  file_.write(directory.text());
  file_.sync();
}

}  // namespace trireme
