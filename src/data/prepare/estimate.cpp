#include "data/prepare/estimate.h"

#include <algorithm>
#include <map>

#include "data/prepare/thread_time.h"

namespace trireme::prepare {
namespace {

constexpr int64_t kSampledFiles = 4, kSampledBlocks = 4;

// Processes the first blocks of a unit immediately, then supplies no more.
class SampleSink final : public BlockSink {
 public:
  SampleSink(BlockWorker& worker, Estimate& sum) : worker_(worker), sum_(sum) {}
  Block* fresh() override { return left_ > 0 ? &block_ : nullptr; }
  bool may_grow(Block&) override { return true; }  // nothing else is in memory yet
  void put(Block* block) override {
    --left_;
    sum_.input_bytes += static_cast<double>(block->bytes.size());
    worker_.work(*block);
    sum_.tokens += static_cast<double>(block->tokens.size()) / static_cast<double>(sizeof(int32_t));
    sum_.documents += static_cast<double>(block->document_tokens.size());
  }

 private:
  BlockWorker& worker_;
  Estimate& sum_;
  Block block_;
  int64_t left_ = kSampledBlocks;
};

Estimate estimate_kind(const Plan& plan, const ReaderSettings& settings, const std::vector<const Unit*>& all,
                       BlockWorker& worker) {
  Estimate sum;
  std::atomic<int64_t> bytes_read{0};
  const int64_t units = std::ssize(all), sampled = std::min(units, kSampledFiles);
  const double start = thread_seconds();
  for (int64_t i = 0; i < sampled; ++i) {
    const Unit& unit = *all[static_cast<size_t>(i * units / sampled)];
    SampleSink sink(worker, sum);
    BlockReader(settings, sink, bytes_read).read(plan.files[unit.file], unit, {});
  }
  sum.core_seconds = thread_seconds() - start;
  int64_t bytes = 0;
  for (const Unit* unit : all) bytes += unit->end - unit->begin;
  const double scale = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(bytes_read.load(), 1));
  return {.input_bytes = sum.input_bytes * scale,
          .tokens = sum.tokens * scale,
          .documents = sum.documents * scale,
          .core_seconds = sum.core_seconds * scale};
}

}  // namespace

Estimate& Estimate::operator+=(const Estimate& other) {
  input_bytes += other.input_bytes;
  tokens += other.tokens;
  documents += other.documents;
  core_seconds += other.core_seconds;
  return *this;
}

Estimate estimate_work(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer) {
  WorkerSettings worker_settings = settings.worker;
  worker_settings.on_error = OnError::skip;
  worker_settings.type = TokenType::int32;
  BlockWorker worker(worker_settings, tokenizer);
  // A byte of a compressed file holds several bytes of text, so each kind of file is scaled separately.
  std::map<std::pair<Compression, Content>, std::vector<const Unit*>> kinds;
  for (const Unit& unit : plan.units) {
    const Wrapping& wrapping = plan.files[unit.file].wrapping;
    kinds[{wrapping.compression, wrapping.content}].push_back(&unit);
  }
  Estimate sum;
  for (const auto& [kind, units] : kinds) sum += estimate_kind(plan, settings.reader, units, worker);
  return sum;
}

}  // namespace trireme::prepare
