// What must hold of training with FP8 linear layers, on any backend that has them.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "support/engine_fixture.h"
#include "train/engine_checkpoint.h"

namespace trireme {

class Fp8Training {
 public:
  using MakeBackend = std::function<std::unique_ptr<Backend>()>;

  // `base`: a GPT-3 as large as the backend can bear.
  Fp8Training(ModelSettings base, MakeBackend make_backend) : base_(std::move(base)), make_backend_(std::move(make_backend)) {
    base_.fp8.enabled = true;
    base_.fp8.amax_history_len = 16;
  }

  const ModelSettings& gpt3() const { return base_; }
  ModelSettings neox() const {
    ModelSettings model = base_;
    model.position_embedding_type = PositionEmbedding::rope;
    model.rotary_percentage = 0.5;
    model.parallel_residual = true;
    model.share_embeddings_and_output_weights = false;
    model.activation = MlpActivation::gelu_erf;
    return model;
  }
  ModelSettings llama() const {
    ModelSettings model = base_;
    model.position_embedding_type = PositionEmbedding::rope;
    model.normalization = Normalization::rmsnorm;
    model.activation = MlpActivation::swiglu;
    model.num_query_groups = 2;
    model.bias = false;
    return model;
  }
  std::vector<ModelSettings> families() const { return {gpt3(), neox(), llama()}; }
  ModelSettings with_dropout(ModelSettings model) const {
    model.hidden_dropout = 0.1;
    return model;
  }

  std::vector<StepResult> train(const ModelSettings& model, int steps, double learning_rate = 1e-3) const {
    EngineFixture engine(settings_of(model), make_backend_());
    std::vector<StepResult> results;
    for (int step = 0; step < steps; ++step) results.push_back(engine.step(batches_of(model, step), learning_rate));
    return results;
  }

  static void expect_equal(const std::vector<StepResult>& got, const std::vector<StepResult>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_EQ(got[step].loss, expected[step].loss) << "step " << step;
      EXPECT_EQ(got[step].grad_norm, expected[step].grad_norm) << "step " << step;
    }
  }

  // Rounding inputs to 2^-4 and gradients to 2^-3 of themselves is noise that averages out over the widths of the model: it
  // learns as much, but for a share. Differences are measured by what has been learned, since these models learn their few
  // batches by heart and the loss itself goes to zero.
  void losses_are_those_of_bf16(ModelSettings model, int steps, double learning_rate, double tolerance) const {
    const auto fp8 = train(model, steps, learning_rate);
    model.fp8.enabled = false;
    const auto bf16 = train(model, steps, learning_rate);
    const int window = steps / 10;
    for (int begin = 0; begin < steps; begin += window) {
      double ours = 0, theirs = 0;
      for (int step = begin; step < begin + window; ++step) {
        ours += fp8[static_cast<size_t>(step)].loss / window;
        theirs += bf16[static_cast<size_t>(step)].loss / window;
      }
      EXPECT_NEAR(ours, theirs, tolerance * std::max(0.3, bf16.front().loss - theirs)) << "steps from " << begin;
    }
    EXPECT_LT(bf16.back().loss, bf16.front().loss - 0.3);  // there was something to learn
  }

  // The first gradients are near those of bf16 already: nothing is lost before there is a history of largest values.
  void first_step_has_the_gradients_of_bf16(ModelSettings model) const {
    const auto fp8 = train(model, 1);
    model.fp8.e4m3 = true, model.fp8.hybrid = false;
    const auto e4m3 = train(model, 1);
    model.fp8.enabled = false;
    const auto bf16 = train(model, 1);
    EXPECT_NEAR(fp8[0].loss, bf16[0].loss, 5e-3 * bf16[0].loss);
    EXPECT_NEAR(fp8[0].grad_norm, bf16[0].grad_norm, 0.03 * bf16[0].grad_norm);
    EXPECT_NEAR(e4m3[0].grad_norm, bf16[0].grad_norm, 0.03 * bf16[0].grad_norm);
    EXPECT_NE(fp8[0].grad_norm, bf16[0].grad_norm);
    EXPECT_NE(fp8[0].grad_norm, e4m3[0].grad_norm);
  }

  // Weights in FP8 only: copies are made from masters that were not rounded to bf16 before, and are less than a bit of FP8 apart.
  void needs_no_wide_weights(ModelSettings model) const {
    const auto wide = train(model, 4);
    EngineFixture with(settings_of(model), make_backend_());
    model.fp8.params = true;
    EngineFixture without(settings_of(model), make_backend_());
    EXPECT_LT(without->weights().views().flat().count(), with->weights().views().flat().count() / 2);
    const auto narrow = train(model, 4);
    for (size_t step = 0; step < wide.size(); ++step) EXPECT_NEAR(narrow[step].loss, wide[step].loss, 3e-3 * wide[step].loss);
    resumed_run_repeats_the_uninterrupted_one(model);
  }

  // Each tensor scaled by itself: the first micro-batch is what it is with delayed scaling, the others differ a little.
  void scales_tensors_by_themselves(ModelSettings model) const {
    const auto delayed = train(model, 4);
    model.fp8.recipe = Fp8Recipe::tensorwise;
    const auto current = train(model, 4);
    for (size_t step = 0; step < delayed.size(); ++step)
      EXPECT_NEAR(current[step].loss, delayed[step].loss, 5e-3 * delayed[step].loss);
    EXPECT_NE(current.back().loss, delayed.back().loss);
    resumed_run_repeats_the_uninterrupted_one(model);
  }

  // The LM head in FP8 too: the first step is as near to bf16 as without, and different.
  void makes_the_head_in_fp8_too(ModelSettings model) const {
    const auto without = train(model, 4);
    model.fp8.lm_head = true;
    first_step_has_the_gradients_of_bf16(model);
    const auto with = train(model, 4);
    for (size_t step = 0; step < with.size(); ++step) EXPECT_NEAR(with[step].loss, without[step].loss, 5e-3 * without[step].loss);
    EXPECT_NE(with.front().loss, without.front().loss);
    evaluation_leaves_no_trace(model);
    resumed_run_repeats_the_uninterrupted_one(model);
  }

  void recompute_modes_give_equal_bits(ModelSettings model) const {
    constexpr int kSteps = 3;  // scaled by itself, by the first step, by two
    const auto expected = train(model, kSteps);
    model.activations_checkpoint_granularity = RecomputeGranularity::selective;
    expect_equal(train(model, kSteps), expected);
    model.activations_checkpoint_granularity = RecomputeGranularity::full;
    model.activations_checkpoint_method = RecomputeMethod::uniform;
    expect_equal(train(model, kSteps), expected);
  }

  void evaluation_leaves_no_trace(const ModelSettings& model) const {
    constexpr int kSteps = 3;
    const auto expected = train(model, kSteps);
    EngineFixture engine(settings_of(model), make_backend_());
    std::vector<StepResult> results;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<Batch> batches = batches_of(model, 1000 + step);
      engine->evaluate(
          {.learning_rate = 0, .targets = 1, .micro_batches = static_cast<int64_t>(batches.size()), .batch = [&](int64_t i) {
             return EngineFixture::view(batches[static_cast<size_t>(i)]);
           }});
      results.push_back(engine.step(batches_of(model, step), 1e-3));
    }
    expect_equal(results, expected);
  }

  // What a checkpoint holds, carried from one engine to another.
  void resumed_run_repeats_the_uninterrupted_one(const ModelSettings& model) const {
    constexpr int kSaved = 2, kSteps = 4;
    const auto expected = train(model, kSteps);
    auto first_backend = make_backend_(), second_backend = make_backend_();
    Backend &from = *first_backend, &to = *second_backend;
    EngineFixture first(settings_of(model), std::move(first_backend)), second(settings_of(model), std::move(second_backend));
    for (int step = 0; step < kSaved; ++step) first.step(batches_of(model, step), 1e-3);
    const auto saved = checkpoint_tensors(*first, CheckpointUse::save), loaded = checkpoint_tensors(*second, CheckpointUse::load);
    ASSERT_EQ(saved.size(), loaded.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      std::vector<std::byte> bytes(static_cast<size_t>(saved[i].tensor.bytes()));
      from.download(kCompute, saved[i].tensor, bytes.data());
      from.synchronize(from.record(kCompute, "saved"));
      to.upload(kCompute, bytes.data(), loaded[i].tensor);
      to.synchronize(to.record(kCompute, "loaded"));
    }
    second->restore_updates(kSaved);
    std::vector<StepResult> results;
    for (int step = kSaved; step < kSteps; ++step) results.push_back(second.step(batches_of(model, step), 1e-3));
    expect_equal(results, {expected.begin() + kSaved, expected.end()});
  }

 private:
  static EngineSettings settings_of(const ModelSettings& model) {
    return {.model = model, .precision = Precision::bf16, .gradient_clip = 1.0};
  }
  static std::vector<Batch> batches_of(const ModelSettings& model, int step) {
    std::vector<Batch> batches;
    for (int64_t first = 0; first < model.global_batch_size; first += model.micro_batch_size)
      batches.push_back(make_batch(model.micro_batch_size, model.encoder_seq_length, model.vocab_size,
                                   step % 4 * model.global_batch_size + first));
    return batches;
  }

  ModelSettings base_;
  MakeBackend make_backend_;
};

}  // namespace trireme
