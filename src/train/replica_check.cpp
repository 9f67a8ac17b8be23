#include "train/replica_check.h"

#include <algorithm>
#include <map>

#include "base/crc32c.h"

namespace trireme {

namespace {

// The elements of the buffer that replicas hold alike: not the pieces of sharded blocks, nor their slots.
std::vector<FlatRange> replicated(const FlatLayout& layout) {
  const FlatPlaces& places = layout.weights;
  if (std::ranges::all_of(places.slots, [](int64_t slot) { return slot == FlatPlaces::kNotSharded; })) return {{0, places.count}};
  std::vector<FlatRange> ranges;
  for (size_t bucket = 0; bucket < places.all.size(); ++bucket)
    if (!places.is_sharded(bucket)) ranges.push_back(places.all[bucket]);
  return ranges;
}

}  // namespace

uint32_t weights_checksum(const Engine& engine) {
  engine.weights().wait_for_all();
  Backend& backend = engine.backend();
  const Tensor flat = engine.weights().views().flat();
  const auto wait = [&] { backend.synchronize(backend.record(kCompute, "weights_copied")); };
  constexpr int64_t kPiece = int64_t{4} << 20;  // elements
  std::vector<std::byte> copy;
  uint32_t checksum = 0;
  wait();
  for (const FlatRange& range : replicated(engine.layout()))
    for (int64_t done = 0; done < range.count; done += kPiece) {
      const Tensor piece = flat.rows(range.begin + done, std::min(kPiece, range.count - done));
      const auto bytes = static_cast<size_t>(piece.bytes());
      if (flat.device == Device::host) {
        checksum = crc32c({static_cast<const std::byte*>(piece.data), bytes}, checksum);
        continue;
      }
      copy.resize(std::max(copy.size(), bytes));
      backend.download(kCompute, piece, copy.data());
      wait();
      checksum = crc32c(std::span(copy).first(bytes), checksum);
    }
  return checksum;
}

std::vector<ReplicaDifference> replica_differences(const MeshShape& shape, const std::vector<uint32_t>& checksums) {
  std::vector<ReplicaDifference> found;
  for (int rank = 0; rank < shape.size(); ++rank) {
    const std::vector<int> replicas = ranks_along(shape, MeshDirection::dp_cp, rank);
    if (replicas.front() != rank) continue;
    std::map<uint32_t, std::vector<int>> by_checksum;
    for (const int replica : replicas) by_checksum[checksums[static_cast<size_t>(replica)]].push_back(replica);
    if (by_checksum.size() == 1) continue;
    const auto most = std::ranges::max_element(by_checksum, {}, [](const auto& entry) { return entry.second.size(); });
    ReplicaDifference difference{.ranks = {}, .replicas = replicas, .is_majority = 2 * most->second.size() > replicas.size()};
    for (const int replica : replicas)
      if (!difference.is_majority || checksums[static_cast<size_t>(replica)] != most->first) difference.ranks.push_back(replica);
    found.push_back(std::move(difference));
  }
  return found;
}

}  // namespace trireme
