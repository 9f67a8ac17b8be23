#include "convert/torch/distributed_files.h"

#include <algorithm>
#include <map>

#include "base/json.h"
#include "convert/torch/torch_file.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

// Names of classes end so, whichever module torch keeps them in.
bool is_a(const PickleValue& value, std::string_view name) {
  return value.is(Kind::object) && value.type->is(Kind::global) && value.type->text.ends_with(name);
}

constexpr size_t kLongestName = 512;  // of a tensor or a file; texts are shared in a pickle, and their copies here are not

class MetadataReader {
 public:
  MetadataReader(const FileSet& files, const std::string& folder)
      : files_(files), folder_(folder), where_(files.where(folder + ".metadata")), pickle_(files.view(folder + ".metadata")) {}

  std::map<std::string, ShardedTensor> read() {
    read_places();
    const PickleValue* tensors = pickle_.root().find("state_dict_metadata");
    if (tensors == nullptr || tensors->dict() == nullptr) fail("state_dict_metadata is missing");
    const PickleValue::Items& items = tensors->dict()->items;
    std::map<std::string, ShardedTensor> found;
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i]->is(Kind::text) && items[i]->text.size() <= kLongestName && is_a(*items[i + 1], ".TensorStorageMetadata")) {
        const std::string name(items[i]->text);
        found[name] = sharded(name, *items[i + 1]);
      }
    return found;
  }

 private:
  struct Place {
    std::string file;
    uint64_t begin = 0, bytes = 0;
  };
  using Key = std::pair<std::string_view, std::vector<int64_t>>;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Failure("{}: damaged: {}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

  // An attribute of a small object. Many objects could share a large one, and each search in it would take long.
  const PickleValue* attribute(const PickleValue& object, std::string_view key) const {
    constexpr size_t kMostAttributes = 32;
    if (object.dict() != nullptr && object.dict()->items.size() > 2 * kMostAttributes)
      fail("an object has more than {} attributes", kMostAttributes);
    return object.find(key);
  }

  std::vector<int64_t> sizes_of(const PickleValue* value) const {
    constexpr size_t kMostDimensions = 16;
    if (value != nullptr && value->is_object_of("torch.Size") && value->items.size() == 1) value = value->items[0];
    if (value == nullptr || !value->is(Kind::tuple)) fail("a shape is not a torch.Size");
    if (value->items.size() > kMostDimensions) fail("a shape has {} dimensions", value->items.size());
    std::vector<int64_t> sizes;
    for (const PickleValue* item : value->items) {
      if (!item->is(Kind::integer) || item->integer < 0) fail("a size is not a number");
      sizes.push_back(item->integer);
    }
    return sizes;
  }

  // A file cannot hold more than its size, whatever the parts in it are said to be.
  void require_room() const {
    std::map<std::string, uint64_t> bytes;
    for (const auto& [key, place] : places_) {
      if (!files_.has(folder_ + place.file)) continue;
      const uint64_t size = files_.view(folder_ + place.file).size();
      uint64_t& sum = bytes[place.file];
      if (place.bytes > size - std::min(size, sum)) fail("{} is too short for its parts; copy it again", place.file);
      sum += place.bytes;
    }
  }

  uint64_t number_of(const PickleValue* value) const {
    if (value == nullptr || !value->is(Kind::integer) || value->integer < 0) fail("a place in a file is not a number");
    return static_cast<uint64_t>(value->integer);
  }

  void read_places() {
    const PickleValue* places = pickle_.root().find("storage_data");
    if (places == nullptr || places->dict() == nullptr) fail("storage_data is missing");
    const PickleValue::Items& items = places->dict()->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue *name = attribute(*items[i], "fqn"), *offset = attribute(*items[i], "offset");
      if (name == nullptr || !name->is(Kind::text) || offset == nullptr || offset->is(Kind::none)) continue;
      const PickleValue* file = attribute(*items[i + 1], "relative_path");
      if (file == nullptr || !file->is(Kind::text) || file->text.size() > kLongestName) fail("a part of a tensor has no file");
      if (const PickleValue* changed = attribute(*items[i + 1], "transform_descriptors");
          changed != nullptr && !changed->is(Kind::none) && !changed->items.empty())
        throw UserError("{}: its tensors are compressed; save the checkpoint without extensions of torch.distributed.checkpoint",
                        where_);
      places_[{name->text, sizes_of(offset)}] = {std::string(file->text), number_of(attribute(*items[i + 1], "offset")),
                                                 number_of(attribute(*items[i + 1], "length"))};
    }
    require_room();
  }

  Shape shape_of(const std::string& name, const std::vector<int64_t>& sizes) const {
    constexpr int64_t kLargestElement = 8;
    int64_t bytes = kLargestElement;
    bool too_large = sizes.empty() || sizes.size() > Shape::kMaxRank;
    for (const int64_t size : sizes) too_large |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
    if (too_large) fail("tensor {} has no possible shape", json_excerpt(name));
    return Shape(sizes);
  }

  ShardedTensor sharded(const std::string& name, const PickleValue& metadata) {
    ShardedTensor tensor;
    const std::vector<int64_t> global = sizes_of(attribute(metadata, "size"));
    if (global.empty() || global.size() > Shape::kMaxRank) return tensor;  // a number, or a thing that no parameter is
    tensor.shape = shape_of(name, global);
    const PickleValue* chunks = attribute(metadata, "chunks");
    if (chunks == nullptr || !chunks->is(Kind::list)) fail("tensor {} has no chunks", json_excerpt(name));
    constexpr size_t kMostChunks = 1 << 20;
    chunks_ += chunks->items.size();
    if (chunks_ > kMostChunks) fail("more than {} parts of tensors", kMostChunks);
    for (const PickleValue* chunk : chunks->items) {
      const std::vector<int64_t> offset = sizes_of(attribute(*chunk, "offsets")), extent = sizes_of(attribute(*chunk, "sizes"));
      bool fits = offset.size() == global.size() && extent.size() == global.size();
      for (size_t d = 0; fits && d < global.size(); ++d) fits = extent[d] <= global[d] && offset[d] <= global[d] - extent[d];
      if (!fits) fail("a chunk of tensor {} is outside of it", json_excerpt(name));
      const auto place = places_.find(Key{name, offset});
      if (place == places_.end()) fail("a chunk of tensor {} is in no file", json_excerpt(name));
      if (static_cast<uint64_t>(Shape(extent).count()) > place->second.bytes)
        fail("a chunk of tensor {} has {} bytes for {} elements", json_excerpt(name), place->second.bytes, Shape(extent).count());
      if (!files_.has(folder_ + place->second.file))
        throw UserError("{} is not there, and has a part of tensor {}; copy the files of all ranks",
                        files_.where(folder_ + place->second.file), json_excerpt(name));
      tensor.pieces.push_back({Shape(offset), Shape(extent), opener(name, place->second, Shape(extent))});
    }
    return tensor;
  }

  std::function<TorchTensor()> opener(const std::string& name, const Place& place, const Shape& extent) const {
    return [files = &files_, file = folder_ + place.file, place, name, extent] {
      const ByteView view = files->view(file);
      const TorchFile torch(ByteView{view.part(place.begin, place.bytes), fmt::format("{}: {}", view.where, name)});
      const std::optional<TorchTensor> tensor = torch.tensor(torch.root());
      if (!tensor || tensor->shape != extent)
        throw Failure("{}: damaged: the part of {} at byte {} is not a tensor of {}", view.where, name, place.begin, extent);
      return *tensor;
    };
  }

  const FileSet& files_;
  const std::string folder_, where_;
  const Pickle pickle_;
  std::map<Key, Place> places_;
  size_t chunks_ = 0;
};

}  // namespace

std::map<std::string, ShardedTensor> read_distributed_checkpoint(const FileSet& files, const std::string& folder) {
  return MetadataReader(files, folder).read();
}

}  // namespace trireme
