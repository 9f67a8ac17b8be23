#include "train/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "train/checkpoint/json.h"

namespace trireme {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";

constexpr std::array kDTypes = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8};
constexpr std::array kForeignTypes = {ForeignType{"F16", 2}, ForeignType{"BOOL", 1},    ForeignType{"I8", 1},
                                      ForeignType{"I16", 2}, ForeignType{"U16", 2},     ForeignType{"U32", 4},
                                      ForeignType{"U64", 8}, ForeignType{"F8_E4M3", 1}, ForeignType{"F8_E5M2", 1}};

const ForeignType* find_foreign(const std::string& name) {
  const auto* const found = std::ranges::find_if(kForeignTypes, [&](const ForeignType& type) { return name == type.name; });
  return found == kForeignTypes.end() ? nullptr : found;
}

SafetensorsTensor parse_tensor(const std::string& name, const nlohmann::json& entry, int64_t data_begin, ForeignTypes foreign,
                               const std::string& file) {
  const std::string where = fmt::format("{}: tensor {}", file, json_excerpt(name));
  SafetensorsTensor tensor;
  tensor.name = name;
  const std::string type = json_string(json_member(entry, "dtype", where), where);
  if (foreign == ForeignTypes::accepted) tensor.foreign = find_foreign(type);
  if (tensor.foreign == nullptr) tensor.dtype = safetensors_dtype(type, where);
  tensor.shape = json_shape(json_member(entry, "shape", where), where);
  const nlohmann::json& offsets = json_member(entry, "data_offsets", where);
  if (entry.size() != 3 || !offsets.is_array() || offsets.size() != 2)
    throw Failure("{}: dtype, shape and data_offsets [begin, end] were expected", where);
  const int64_t begin = json_size(offsets[0], where), end = json_size(offsets[1], where);
  if (end < begin || end - begin != tensor.bytes())
    throw Failure("{}: data_offsets {} do not hold the {} bytes of {} {}", where, json_excerpt(offsets), tensor.bytes(),
                  tensor.type_name(), tensor.shape);
  if (__builtin_add_overflow(begin, data_begin, &tensor.begin)) throw Failure("{}: data_offsets are out of range", where);
  return tensor;
}

void parse_header(SafetensorsHeader& header, ForeignTypes foreign, const std::string& file) {
  const auto parsed = parse_strict_json(std::string_view(header.bytes).substr(kLengthBytes), file);
  if (!parsed.is_object()) throw Failure("{}: the header is not a JSON object", file);
  const auto data_begin = narrow<int64_t>(header.bytes.size());
  for (const auto& [name, entry] : parsed.items()) {
    if (name != kMetadata) {
      header.tensors.push_back(parse_tensor(name, entry, data_begin, foreign, file));
      continue;
    }
    if (!entry.is_object()) throw Failure("{}: {} is not an object", file, kMetadata);
    for (const auto& [key, value] : entry.items()) header.metadata[key] = json_string(value, file);
  }
}

// The data is exactly the tensors, one after the other.
void check_places(SafetensorsHeader& header, const std::string& file) {
  std::ranges::sort(header.tensors, {}, [](const SafetensorsTensor& tensor) { return std::pair(tensor.begin, tensor.bytes()); });
  auto next = narrow<int64_t>(header.bytes.size());
  for (const SafetensorsTensor& tensor : header.tensors) {
    if (tensor.begin != next)
      throw Failure("{}: tensor {} begins at byte {} where {} was expected: tensors overlap or leave a gap", file,
                    json_excerpt(tensor.name), tensor.begin, next);
    if (__builtin_add_overflow(next, tensor.bytes(), &next) || next > header.file_bytes)
      throw Failure("{}: truncated: tensor {} continues after the last byte, {}", file, json_excerpt(tensor.name),
                    header.file_bytes);
  }
  if (next != header.file_bytes) throw Failure("{}: {} bytes follow the last tensor", file, header.file_bytes - next);
}

}  // namespace

SafetensorsHeader make_safetensors_header(std::vector<SafetensorsTensor> tensors, std::map<std::string, std::string> metadata) {
  std::ranges::stable_sort(tensors, std::ranges::greater{},
                           [](const SafetensorsTensor& tensor) { return size_of(tensor.dtype); });
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  if (!metadata.empty()) entries[kMetadata] = metadata;
  int64_t next = 0;
  for (SafetensorsTensor& tensor : tensors) {
    CHECK(!entries.contains(tensor.name) && tensor.name != kMetadata);
    tensor.begin = next;
    next += tensor.bytes();
    entries[tensor.name] = {{"dtype", safetensors_name_of(tensor.dtype)},
                            {"shape", std::vector<int64_t>(tensor.shape.dims().begin(), tensor.shape.dims().end())},
                            {"data_offsets", {tensor.begin, next}}};
  }
  std::string text = entries.dump();
  text.resize(static_cast<size_t>(round_up(narrow<int64_t>(text.size()), 8)), ' ');
  CHECK(narrow<int64_t>(text.size()) <= kMaxHeaderBytes);

  const uint64_t length = text.size();
  SafetensorsHeader header;
  header.bytes.resize(kLengthBytes);
  std::memcpy(header.bytes.data(), &length, kLengthBytes);
  header.bytes += text;
  const auto data_begin = narrow<int64_t>(header.bytes.size());
  for (SafetensorsTensor& tensor : tensors) tensor.begin += data_begin;
  header.tensors = std::move(tensors);
  header.metadata = std::move(metadata);
  header.file_bytes = data_begin + next;
  return header;
}

SafetensorsHeader read_safetensors_header(const File& file, ForeignTypes foreign) {
  const std::string name = file.path().string();
  SafetensorsHeader header;
  header.file_bytes = file.size();
  if (header.file_bytes < kLengthBytes) throw Failure("{}: {} bytes are too few for safetensors", name, header.file_bytes);
  header.bytes.resize(kLengthBytes);
  file.read_at(0, std::as_writable_bytes(std::span(header.bytes)));
  uint64_t length = 0;
  std::memcpy(&length, header.bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes)
    throw Failure("{}: a header of {} bytes is more than the {} allowed", name, length, kMaxHeaderBytes);
  if (narrow<int64_t>(length) > header.file_bytes - kLengthBytes)
    throw Failure("{}: truncated: a header of {} bytes in a file of {}", name, length, header.file_bytes);
  header.bytes.resize(kLengthBytes + length);
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header.bytes)).subspan(kLengthBytes));
  parse_header(header, foreign, name);
  check_places(header, name);
  return header;
}

std::string SafetensorsTensor::type_name() const { return foreign != nullptr ? foreign->name : safetensors_name_of(dtype); }

const char* safetensors_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
    case DType::f8e4m3:
      return "F8_E4M3";
    case DType::f8e5m2:
      return "F8_E5M2";
    case DType::f16:
      return "F16";
  }
  CHECK_NEVER("unknown dtype");
  return "";
}

DType safetensors_dtype(const std::string& name, const std::string& where) {
  for (const DType dtype : kDTypes)
    if (name == safetensors_name_of(dtype)) return dtype;
  throw Failure("{}: dtype {} is not known here", where, json_excerpt(name));
}

}  // namespace trireme
