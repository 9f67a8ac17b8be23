// An engine with memory of its own, on any backend, and a batch to train it on.
#pragma once

#include <memory>
#include <vector>

#include "data/batch/batch.h"
#include "train/memory_plan.h"

namespace trireme {

class EngineFixture {
 public:
  EngineFixture(const EngineSettings& settings, std::unique_ptr<Backend> backend)
      : EngineFixture(settings, std::move(backend), Mesh::solo(), {}) {}
  EngineFixture(const EngineSettings& settings, std::unique_ptr<Backend> backend, Mesh mesh, const MeshPlace& place)
      : backend_(std::move(backend)),
        mesh_(std::move(mesh)),
        plan_(plan_memory(settings, *backend_, micro_batches(settings.model, place.shape), place, &planned_)),
        memory_(plan_, *backend_),
        engine_(settings, *backend_, mesh_, memory_.arenas, memory_.step) {
    engine_.initialise_weights();
  }

  Engine& operator*() { return engine_; }
  Engine* operator->() { return &engine_; }

  // One step on the samples of `batches`, in order; every one has the engine's micro-batch size.
  StepResult step(const std::vector<Batch>& batches, double learning_rate) {
    int64_t targets = 0;
    for (const Batch& batch : batches) targets += batch.unmasked_targets;
    return step(batches, learning_rate, targets);
  }
  // The same where other ranks have other samples of a global batch with `targets` targets.
  StepResult step(const std::vector<Batch>& batches, double learning_rate, int64_t targets) {
    start(batches, learning_rate, targets);
    return engine_.finish_step();
  }
  void start(const std::vector<Batch>& batches, double learning_rate, int64_t targets) {
    engine_.start_step({.learning_rate = learning_rate,
                        .targets = targets,
                        .micro_batches = static_cast<int64_t>(batches.size()),
                        .batch = [&](int64_t i) { return view(batches[static_cast<size_t>(i)]); }});
  }

  // The master copy of a parameter that this rank owns whole.
  std::span<float> master(size_t row) {
    for (const Bucket& bucket : engine_.layout().buckets)
      for (const OwnedPart& part : bucket.parts)
        if (part.row == row) return engine_.master(bucket, part).span<float>();
    return {};
  }

  static HostBatch view(const Batch& batch) {
    return {.tokens = batch.tokens,
            .targets = batch.targets,
            .positions = batch.positions,
            .row_keys = batch.row_keys,
            .document_starts = batch.document_starts};
  }

  const MemoryPlan& plan() const { return plan_; }
  const StepLog& planned() const { return planned_; }
  const Arenas& arenas() const { return memory_.arenas; }

 private:
  static int64_t micro_batches(const ModelSettings& model, const MeshShape& shape) {
    return ceil_div(model.global_batch_size, model.micro_batch_size * shape.dp);
  }

  std::unique_ptr<Backend> backend_;
  Mesh mesh_;
  StepLog planned_;
  MemoryPlan plan_;
  RunMemory memory_;
  Engine engine_;
};

// Tokens that depend on sample and position.
class MadeUpDataset final : public Dataset {
 public:
  MadeUpDataset(int64_t T, int64_t vocabulary) : sequence_(T), vocabulary_(vocabulary) {}

  int64_t size() const override { return int64_t{1} << 30; }
  int64_t sequence() const override { return sequence_; }
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  void read(int64_t index, int64_t first, std::span<int32_t> tokens, std::span<int32_t> targets) const override {
    const auto token = [&](int64_t t) { return static_cast<int32_t>((index * 31 + t * t * 7 + t) % vocabulary_); };
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t t = first + static_cast<int64_t>(i);
      tokens[i] = token(t), targets[i] = token(t + 1);
    }
  }

  int64_t sequence_, vocabulary_;
};

// Samples first .. first + B - 1 of it.
inline Batch make_batch(int64_t B, int64_t T, int64_t vocabulary, int64_t first, SequenceCut cut = {},
                        DocumentRules documents = {}) {
  Batch batch(B, T, cut, documents);
  fill_batch(MadeUpDataset(T, vocabulary), first, batch);
  return batch;
}

// A small GPT-3: two layers, 32 wide.
inline ModelSettings small_model() {
  ModelSettings model;
  model.num_layers = 2;
  model.hidden_size = 32;
  model.ffn_hidden_size = 128;
  model.num_attention_heads = 4;
  model.vocab_size = 61;
  model.make_vocab_size_divisible_by = 64;
  model.encoder_seq_length = model.max_position_embeddings = 16;
  model.micro_batch_size = 2;
  model.global_batch_size = 4;
  model.init_method_std = 0.1;
  return model;
}

}  // namespace trireme
