#include "data/prepare/input_check.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/error.h"

namespace trireme::prepare {
namespace {

using nlohmann::json;

json stamp_to_json(const FileStamp& stamp) {
  return json::array({stamp.bytes, stamp.modified, stamp.inode, stamp.status_changed});
}

// Computes the checksum of a given number of blocks.
class ChecksumSink final : public BlockSink {
 public:
  ChecksumSink(int64_t blocks, uint32_t& sum) : left_(blocks), sum_(sum) {}
  Block* fresh() override { return left_ > 0 ? &block_ : nullptr; }
  bool may_grow(Block&) override { return true; }  // nothing else is in memory yet
  void put(Block* block) override {
    --left_;
    sum_ = crc32c(block->bytes.bytes(), sum_);
  }

 private:
  Block block_;
  int64_t left_;
  uint32_t& sum_;
};

uint32_t checksum_of_part(const Plan& plan, const Part& part, const PartState& state, const ReaderSettings& settings) {
  uint32_t sum = 0;
  std::atomic<int64_t> bytes_read{0};
  const int64_t units = part.end_unit - part.first_unit;
  for (int64_t i = 0; i < (state.finished ? units : std::min(state.next.unit + 1, units)); ++i) {
    const Unit& unit = plan.units[static_cast<size_t>(part.first_unit + i)];
    const bool whole = state.finished || i < state.next.unit;
    ChecksumSink sink(whole ? std::numeric_limits<int64_t>::max() : state.next.block, sum);
    BlockReader(settings, sink, bytes_read).read(plan.files[unit.file], unit, {});
  }
  return sum;
}

}  // namespace

json stamps_to_json(const std::vector<InputFile>& files) {
  json stamps = json::array();
  for (const InputFile& file : files) stamps.push_back(stamp_to_json(file.stamp));
  return stamps;
}

std::set<size_t> files_that_differ(const std::vector<InputFile>& files, const json& stamps) {
  std::set<size_t> differing;
  for (size_t i = 0; i < files.size(); ++i)
    if (!stamps.is_array() || i >= stamps.size() || stamps[i] != stamp_to_json(files[i].stamp)) differing.insert(i);
  return differing;
}

const InputFile* find_changed_input(const Plan& plan, const std::set<size_t>& differing,
                                    const std::vector<std::optional<PartState>>& states, const ReaderSettings& settings) {
  CHECK_EQ(states.size(), plan.parts.size());
  for (size_t i = 0; i < states.size(); ++i) {
    if (!states[i]) continue;
    const Part& part = plan.parts[i];
    const InputFile* suspect = nullptr;
    for (int64_t unit = part.first_unit; unit < part.end_unit && suspect == nullptr; ++unit)
      if (const size_t file = plan.units[static_cast<size_t>(unit)].file; differing.contains(file)) suspect = &plan.files[file];
    if (suspect != nullptr && checksum_of_part(plan, part, *states[i], settings) != states[i]->input_checksum) return suspect;
  }
  return nullptr;
}

}  // namespace trireme::prepare
