#include "convert/hf_files.h"

#include <bit>
#include <set>

#include "train/checkpoint/json.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxJsonBytes = int64_t{1} << 28;

std::string read_config_file(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  if (!fs::is_regular_file(file)) throw UserError("{} is not there; a model of transformers has one", file.string());
  return read_file(file, kMaxJsonBytes);
}

[[noreturn]] void throw_no_tensors(const fs::path& folder) {
  if (fs::exists(folder / "pytorch_model.bin") || fs::exists(folder / "pytorch_model.bin.index.json"))
    throw UserError(
        "{} has its weights in pytorch_model.bin, which is not read here; save it again with save_pretrained, which "
        "writes safetensors",
        folder.string());
  throw UserError("neither model.safetensors nor model.safetensors.index.json is in {}", folder.string());
}

// Calls use(bits) for `count` elements of `file`, reading in pieces.
template <class Bits, class Use>
void for_each_element(const File& file, int64_t begin, int64_t count, Use&& use) {
  constexpr int64_t kPiece = 1 << 18;
  std::vector<Bits> piece(static_cast<size_t>(std::min(count, kPiece)));
  for (int64_t done = 0; done < count;) {
    const auto now = std::span(piece).first(static_cast<size_t>(std::min(kPiece, count - done)));
    file.read_at(begin + done * static_cast<int64_t>(sizeof(Bits)), std::as_writable_bytes(now));
    for (const Bits bits : now) use(bits);
    done += narrow<int64_t>(now.size());
  }
}

}  // namespace

HfFiles::HfFiles(const fs::path& named) : folder_(fs::is_directory(named) ? named : named.parent_path()) {
  if (!fs::exists(named)) throw UserError("{} is not there; name the folder of a model or its safetensors file", named.string());
  if (folder_.empty()) folder_ = ".";
  config_ = read_config_file(folder_);
  const fs::path index = folder_ / "model.safetensors.index.json", single = folder_ / "model.safetensors";
  if (!fs::is_directory(named) && named.extension() != ".json")
    add_file(named);
  else if (fs::exists(single))
    add_file(single);
  else if (fs::exists(index))
    add_index(index);
  else
    throw_no_tensors(folder_);
}

void HfFiles::add_file(const fs::path& path) {
  const File file = File::open(path);
  for (SafetensorsTensor& tensor : read_safetensors_header(file, ForeignTypes::accepted).tensors) {
    const std::string name = tensor.name;
    const auto [at, added] = tensors_.emplace(name, Place{path, std::move(tensor)});
    if (!added) throw UserError("tensor {} is in {} and in {}", json_excerpt(name), at->second.file.string(), path.string());
  }
}

void HfFiles::add_index(const fs::path& index) {
  const std::string where = index.string();
  std::map<std::string, std::string> file_of;
  try {
    const nlohmann::json parsed = parse_strict_json(read_file(index, kMaxJsonBytes), where);
    for (const auto& [tensor, file] : json_member(parsed, "weight_map", where).items())
      file_of[tensor] = json_string(file, where);
  } catch (const Failure& failure) {
    throw UserError("{}", failure.what());
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) {
    // An index must not refer to files outside its folder.
    if (file.empty() || file.front() == '.' || file.find('/') != std::string::npos)
      throw UserError("{}: {} is not the name of a file beside it", where, json_excerpt(file));
    if (!files.insert(file).second) continue;
    if (!fs::exists(folder_ / file)) throw UserError("{} lists {}, which is not there", where, file);
    add_file(folder_ / file);
  }
  for (const auto& [tensor, file] : file_of)
    if (const auto found = tensors_.find(tensor); found == tensors_.end() || found->second.file.filename() != file)
      throw UserError("{}: tensor {} is not in {}", where, json_excerpt(tensor), file);
}

void HfFiles::read(const Place& place, std::span<float> to) {
  const SafetensorsTensor& tensor = place.tensor;
  CHECK_EQ(tensor.shape.count(), narrow<int64_t>(to.size()));
  const File file = File::open(place.file);
  float* out = to.data();
  const auto each = [&]<class Bits>(Bits, auto&& widen) {
    for_each_element<Bits>(file, tensor.begin, tensor.shape.count(), [&](Bits bits) { *out++ = widen(bits); });
  };
  const std::string type = tensor.type_name();
  if (type == "F32")
    file.read_at(tensor.begin, std::as_writable_bytes(to));
  else if (type == "BF16")
    each(uint16_t{}, [](uint16_t bits) { return to_float(bf16{bits}); });
  else if (type == "F16")
    each(uint16_t{}, [](uint16_t bits) { return to_float(f16{bits}); });
  else
    throw UserError("{}: tensor {} is {}; weights are read as F32, BF16 or F16", place.file.string(), json_excerpt(tensor.name),
                    type);
}

}  // namespace trireme
