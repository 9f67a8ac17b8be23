#include "train/checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/crc32c.h"
#include "base/file.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {
namespace {

// What a stored tensor gives to one of the wanted ones.
struct Delivery {
  const CheckpointTensor* to = nullptr;
  std::vector<CopyRun> runs;
};

// By shard, then by tensor of the shard, so that each is read once, whoever wants it.
using ReadPlan = std::vector<std::vector<std::vector<Delivery>>>;

struct StoredPlace {
  size_t shard = 0, tensor = 0;
};
using StoredIndex = std::multimap<std::string, StoredPlace>;

StoredIndex index_of(const CheckpointManifest& manifest) {
  StoredIndex index;
  for (size_t shard = 0; shard < manifest.shards.size(); ++shard)
    for (size_t tensor = 0; tensor < manifest.shards[shard].tensors.size(); ++tensor)
      index.insert({manifest.shards[shard].tensors[tensor].name, {shard, tensor}});
  return index;
}

// Moments may be kept in another of these than they were saved in.
bool converts(DType stored, DType wanted) {
  const auto is_moment = [](DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; };
  return stored == wanted || (is_moment(stored) && is_moment(wanted));
}

void check_same_kind(const StoredCheckpoint& checkpoint, const CheckpointTensor& wanted, const StoredTensor& stored) {
  if (wanted.slice.global != stored.slice.global || !converts(stored.dtype, wanted.tensor.dtype))
    throw CheckpointMismatch("{}: tensor {} is {} {} there, and {} {} is wanted", checkpoint.folder.string(), wanted.name,
                             name_of(stored.dtype), stored.slice.global, name_of(wanted.tensor.dtype), wanted.slice.global);
}

void plan_tensor(const StoredCheckpoint& checkpoint, const StoredIndex& index, const CheckpointTensor& wanted, ReadPlan& plan) {
  CHECK(wanted.slice.valid() && wanted.slice.count() == wanted.tensor.count());
  CHECK(wanted.backend != nullptr || wanted.tensor.device == Device::host);
  const auto [begin, end] = index.equal_range(wanted.name);
  if (begin == end) throw CheckpointMismatch("{}: there is no tensor {}", checkpoint.folder.string(), wanted.name);
  Coverage coverage;
  for (auto found = begin; found != end; ++found) {
    const StoredPlace place = found->second;
    const StoredTensor& stored = checkpoint.manifest.shards[place.shard].tensors[place.tensor];
    check_same_kind(checkpoint, wanted, stored);
    std::vector<CopyRun> runs = common_runs(stored.slice, wanted.slice);
    // A replica of what another slice gives already need not be read.
    if (coverage.add(runs) > 0) plan[place.shard][place.tensor].push_back({&wanted, std::move(runs)});
  }
  if (const int64_t missing = wanted.slice.count() - coverage.covered(); missing > 0)
    throw CheckpointMismatch("{}: tensor {} lacks {} of the {} elements of {}, the first of them number {}",
                             checkpoint.folder.string(), wanted.name, missing, wanted.slice.count(), wanted.slice.text(),
                             coverage.first_gap());
}

// The elements in the dtype of `wanted`.
void deliver_converted(DType stored, const std::byte* from, int64_t count, const CheckpointTensor& wanted, int64_t begin) {
  if (stored == wanted.tensor.dtype) return copy_elements(from, wanted, begin, count);
  const auto convert = [&]<class From, class To>(From, To, auto&& one) {
    std::vector<To> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      From value;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      values[i] = one(value);
    }
    copy_elements(values.data(), wanted, begin, count);
  };
  if (stored == DType::f32)
    convert(float{}, bf16{}, [](float value) { return to_bf16(value); });
  else
    convert(bf16{}, float{}, [](bf16 value) { return to_float(value); });
}

// The part of `runs` from element `begin` of the stored tensor on that is in `bytes`.
void deliver(const Delivery& delivery, DType stored, int64_t begin, std::span<const std::byte> bytes) {
  const CheckpointTensor& wanted = *delivery.to;
  const int64_t element = size_of(stored);
  const int64_t end = begin + narrow<int64_t>(bytes.size()) / element;
  auto run = std::ranges::upper_bound(delivery.runs, begin, {}, [](const CopyRun& r) { return r.from + r.count; });
  for (; run != delivery.runs.end() && run->from < end; ++run) {
    const int64_t first = std::max(begin, run->from), last = std::min(end, run->from + run->count);
    deliver_converted(stored, bytes.data() + (first - begin) * element, last - first, wanted, run->to + first - run->from);
  }
}

void read_tensor(const File& file, const StoredTensor& stored, int64_t file_begin, std::span<const Delivery> deliveries,
                 std::vector<std::byte>& buffer) {
  const int64_t element = size_of(stored.dtype);
  const int64_t total = stored.slice.count() * element;
  uint32_t checksum = 0;
  for (int64_t done = 0; done < total;) {
    const std::span<std::byte> chunk = std::span(buffer).first(std::min<int64_t>(narrow<int64_t>(buffer.size()), total - done));
    file.read_at(file_begin + done, chunk);
    checksum = crc32c(chunk, checksum);
    for (const Delivery& delivery : deliveries) deliver(delivery, stored.dtype, done / element, chunk);
    done += narrow<int64_t>(chunk.size());
  }
  if (checksum != stored.checksum)
    throw Failure("shard {} is damaged: tensor {}, bytes {}:{}, has checksum {:08x} where {:08x} was expected",
                  file.path().filename().string(), stored.key, file_begin, file_begin + total, checksum, stored.checksum);
}

void read_shard(const StoredCheckpoint& checkpoint, const StoredShard& shard,
                const std::vector<std::vector<Delivery>>& deliveries, std::vector<std::byte>& buffer) {
  const File file = File::open(checkpoint.folder / shard.file);
  const SafetensorsHeader header = read_safetensors_header(file);
  if (const uint32_t found = crc32c(bytes_of(header.bytes)); found != shard.header_checksum)
    throw Failure("shard {} is damaged: its header has checksum {:08x} where {:08x} was expected", shard.file, found,
                  shard.header_checksum);
  std::map<std::string, const SafetensorsTensor*> places;
  for (const SafetensorsTensor& tensor : header.tensors) places[tensor.name] = &tensor;
  for (size_t i = 0; i < shard.tensors.size(); ++i) {
    if (deliveries[i].empty()) continue;
    const StoredTensor& stored = shard.tensors[i];
    const auto place = places.find(stored.key);
    if (place == places.end() || place->second->dtype != stored.dtype || place->second->shape != stored.slice.shape())
      throw Failure("shard {} is damaged: its tensor {} is not the one of the manifest", shard.file, stored.key);
    read_tensor(file, stored, place->second->begin, deliveries[i], buffer);
  }
}

}  // namespace

void load_checkpoint(const StoredCheckpoint& checkpoint, std::span<const CheckpointTensor> tensors) {
  const std::vector<StoredShard>& shards = checkpoint.manifest.shards;
  ReadPlan plan(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) plan[i].resize(shards[i].tensors.size());
  const StoredIndex index = index_of(checkpoint.manifest);
  for (const CheckpointTensor& wanted : tensors) plan_tensor(checkpoint, index, wanted, plan);

  // Large enough for the disk, small enough to stay in the cache until it is copied; a multiple of every element size.
  std::vector<std::byte> buffer(1 << 20);
  for (size_t i = 0; i < shards.size(); ++i)
    if (std::ranges::any_of(plan[i], [](const auto& deliveries) { return !deliveries.empty(); }))
      read_shard(checkpoint, shards[i], plan[i], buffer);
}

NewestCheckpoint load_newest(const std::filesystem::path& folder,
                             const std::function<std::vector<CheckpointTensor>(const CheckpointManifest&)>& wanted,
                             Control* ranks) {
  return find_latest(
      folder, [&](const StoredCheckpoint& checkpoint) { load_checkpoint(checkpoint, wanted(checkpoint.manifest)); }, ranks);
}

}  // namespace trireme
