#include "convert/torch/torch_file.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

// The number that files before torch 1.6 begin with, as the pickle stores it.
constexpr std::string_view kOldMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

int64_t integer_of(const PickleValue& value, const std::string& where, const char* what) {
  if (!value.is(Kind::integer) || value.integer < 0) throw Failure("{}: damaged: {} is not a number", where, what);
  return value.integer;
}

std::vector<int64_t> integers_of(const PickleValue& value, const std::string& where, const char* what) {
  const PickleValue* list = &value;  // a tuple, or a torch.Size of one
  if (value.is_object_of("torch.Size") && value.items.size() == 1) list = value.items[0];
  if (!list->is(Kind::tuple) || list->items.size() > Shape::kMaxRank)
    throw Failure("{}: damaged: {} is not a list of at most {} numbers", where, what, Shape::kMaxRank);
  std::vector<int64_t> numbers;
  for (const PickleValue* item : list->items) numbers.push_back(integer_of(*item, where, what));
  return numbers;
}

}  // namespace

TorchFile::TorchFile(const ByteView& file) : where_(file.where) {
  if (ZipArchive::is_archive(file))
    open_archive(file);
  else
    open_old_format(file);
}

void TorchFile::open_archive(const ByteView& file) {
  const ZipArchive archive(file);
  // All entries are in one folder, whose name is that of the file when it was written.
  constexpr std::string_view kPickle = "/data.pkl";
  const auto pickle = std::ranges::find_if(archive.entries(), [&](const auto& entry) { return entry.first.ends_with(kPickle); });
  if (pickle == archive.entries().end())
    throw UserError("{}: an archive without data.pkl; torch.save writes one, and so this is not a file of torch", where_);
  const std::string folder = pickle->first.substr(0, pickle->first.size() - kPickle.size());
  if (const ZipArchive::Entry* order = archive.find(folder + "/byteorder"))
    if (const ByteView text{order->bytes, where_}; text.text() != "little")
      throw UserError("{}: byteorder {} is not little; save the file again on a little-endian machine", where_,
                      json_excerpt(text.text().substr(0, 20)));
  require_checksum(pickle->second, where_ + ": data.pkl");
  const std::string prefix = folder + "/data/";
  for (const auto& [name, entry] : archive.entries())
    if (name.starts_with(prefix))
      storages_[name.substr(prefix.size())] = std::make_shared<TorchStorage>(TorchStorage{entry, where_ + ": " + name, false});
  pickle_ = std::make_unique<Pickle>(ByteView{pickle->second.bytes, where_});
}

// Pickles of a magic number, of a version, of facts about the machine, of the value, and of the keys of the storages, which
// follow: each 8 bytes with the number of its elements, and the elements.
void TorchFile::open_old_format(const ByteView& file) {
  const auto throw_foreign = [&] { throw UserError("{} is not a file of torch.save", where_); };
  if (!file.has(0, 2) || file.number(0, 1) != 0x80) throw_foreign();
  const Pickle magic(file), version(file, magic.end()), machine(file, version.end());
  if (!magic.root().is(Kind::bytes) || magic.root().text != kOldMagic) throw_foreign();
  pickle_ = std::make_unique<Pickle>(file, machine.end());
  const Pickle keys(file, pickle_->end());
  if (!keys.root().is(Kind::list)) throw Failure("{}: damaged: the list of its storages is missing", where_);
  std::map<std::string_view, TorchTypeFacts> types;
  for (const PickleValue& value : pickle_->values())
    if (const PickleValue* id = storage_id(value)) types[id->items[2]->text] = torch_type_named(id->items[1]->text);
  uint64_t at = keys.end();
  for (const PickleValue* key : keys.root().items) {
    const auto type = types.find(key->text);
    if (!key->is(Kind::text) || type == types.end() || type->second.bytes == 0)
      throw Failure("{}: damaged: storage {} has no type", where_, json_excerpt(key->text));
    int64_t bytes = 0;
    const auto count = static_cast<int64_t>(file.number(at, 8));
    if (count < 0 || __builtin_mul_overflow(count, type->second.bytes, &bytes))
      throw Failure("{}: damaged: storage {} has {} elements", where_, json_excerpt(key->text), count);
    const ZipArchive::Entry entry{file.part(at + 8, static_cast<uint64_t>(bytes)), 0};
    storages_[std::string(key->text)] = std::make_shared<TorchStorage>(TorchStorage{entry, where_, false});
    at += 8 + static_cast<uint64_t>(bytes);
  }
}

// The tuple ("storage", type, key, device, number of elements, ...), or nullptr.
const PickleValue* TorchFile::storage_id(const PickleValue& persistent) const {
  if (!persistent.is(Kind::persistent)) return nullptr;
  const PickleValue& id = *persistent.items.at(0);
  const bool is_storage = id.is(Kind::tuple) && id.items.size() >= 5 && id.items[0]->is(Kind::text) &&
                          id.items[0]->text == "storage" && id.items[1]->is(Kind::global) && id.items[2]->is(Kind::text);
  return is_storage ? &id : nullptr;
}

std::shared_ptr<TorchStorage> TorchFile::storage(const PickleValue& persistent, TorchTypeFacts& type) const {
  const PickleValue* id = storage_id(persistent);
  if (id == nullptr) throw Failure("{}: damaged: a tensor without a storage", where_);
  const auto found = storages_.find(id->items[2]->text);
  if (found == storages_.end()) throw Failure("{}: damaged: storage {} is missing", where_, json_excerpt(id->items[2]->text));
  type = torch_type_named(id->items[1]->text);
  const int64_t count = integer_of(*id->items[4], where_, "the size of a storage");
  int64_t bytes = 0;
  if (type.bytes != 0 &&
      (__builtin_mul_overflow(count, type.bytes, &bytes) || static_cast<uint64_t>(bytes) != found->second->entry.bytes.size()))
    throw Failure("{}: damaged: storage {} has {} bytes and should have {} elements of {}", where_, found->first,
                  found->second->entry.bytes.size(), count, type.name);
  if (id->items.size() > 5 && !id->items[5]->is(Kind::none))
    throw UserError("{}: storage {} is a view of another; save the file again with a newer torch", where_, found->first);
  return found->second;
}

// The arguments of torch's _rebuild_tensor_v2: storage, offset, sizes, strides, ...; of v3 the type is the seventh.
TorchTensor TorchFile::view(const PickleValue& object) const {
  const PickleValue::Items& arguments = object.items;
  if (arguments.size() < 4) throw Failure("{}: damaged: a tensor without sizes", where_);
  TorchTensor tensor;
  tensor.storage = storage(*arguments[0], tensor.type);
  if (object.is_object_of("torch._utils._rebuild_tensor_v3") && arguments.size() > 6 && arguments[6]->is(Kind::global))
    tensor.type = torch_type_named(arguments[6]->text);
  tensor.offset = integer_of(*arguments[1], where_, "the offset of a tensor");
  const std::vector<int64_t> sizes = integers_of(*arguments[2], where_, "the shape of a tensor");
  tensor.strides = integers_of(*arguments[3], where_, "the strides of a tensor");
  if (sizes.size() != tensor.strides.size())
    throw Failure("{}: damaged: a tensor with {} sizes and {} strides", where_, sizes.size(), tensor.strides.size());
  int64_t last = tensor.offset, count = 1, step = 0;
  bool too_large = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    too_large |= __builtin_mul_overflow(count, std::max<int64_t>(sizes[d], 1), &count);
    too_large |= __builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), tensor.strides[d], &step);
    too_large |= __builtin_add_overflow(last, step, &last);
  }
  // A view that repeats elements could be larger than its file.
  const bool is_empty = std::ranges::find(sizes, 0) != sizes.end();
  const int64_t width = std::max<int64_t>(tensor.type.bytes, 1);
  const int64_t there = static_cast<int64_t>(tensor.storage->entry.bytes.size()) / width;
  if (too_large || (!is_empty && (last >= there || count > there)))
    throw Failure("{}: damaged: a tensor of [{}] does not fit its storage of {} elements", tensor.storage->where,
                  fmt::join(sizes, ","), there);
  tensor.shape = Shape(sizes);
  return tensor;
}

std::optional<TorchTensor> TorchFile::tensor(const PickleValue& value) const {
  const PickleValue* object = &value;
  for (int depth = 0; depth < 4 && object->is(Kind::object); ++depth) {
    if (object->type->is(Kind::global)) {
      const std::string_view name = object->type->text;
      if (name.starts_with("torch._utils._rebuild_tensor")) return view(*object);
      if (name.starts_with("torch._utils._rebuild_parameter") || name == "torch.nn.parameter.Parameter") {
        if (object->items.empty()) return std::nullopt;
        object = object->items[0];
        continue;
      }
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trireme
