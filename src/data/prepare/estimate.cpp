#include "data/prepare/estimate.h"

#include <algorithm>

#include "data/prepare/thread_time.h"

namespace trireme::prepare {
namespace {

constexpr int64_t kSampledFiles = 4, kSampledBlocks = 4;

// Works on the first blocks of a unit as they come, and then has no more to give.
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

}  // namespace

Estimate estimate_work(const Plan& plan, const PipelineSettings& settings, const Tokenizer& tokenizer) {
  WorkerSettings worker_settings = settings.worker;
  worker_settings.on_error = OnError::skip;
  worker_settings.type = TokenType::int32;
  BlockWorker worker(worker_settings, tokenizer);
  Estimate sum;
  std::atomic<int64_t> bytes_read{0};
  const int64_t units = std::ssize(plan.units), sampled = std::min(units, kSampledFiles);
  const double start = thread_seconds();
  for (int64_t i = 0; i < sampled; ++i) {
    const Unit& unit = plan.units[static_cast<size_t>(i * units / sampled)];
    SampleSink sink(worker, sum);
    BlockReader(settings.reader, sink, bytes_read).read(plan.files[unit.file], unit, {});
  }
  sum.core_seconds = thread_seconds() - start;
  const double scale = static_cast<double>(plan.bytes()) / static_cast<double>(std::max<int64_t>(bytes_read.load(), 1));
  return {.input_bytes = sum.input_bytes * scale,
          .tokens = sum.tokens * scale,
          .documents = sum.documents * scale,
          .core_seconds = sum.core_seconds * scale};
}

}  // namespace trireme::prepare
