// Documents that share a sample do not see each other: the loss and the gradients of a packed sample are those of each document
// alone, on both host backends; and every layout gives the losses of one rank.
#include <gtest/gtest.h>

#include "backend/reference/reference_backend.h"
#include "support/layouts.h"

namespace trireme {
namespace {

constexpr int64_t kLengths[] = {5, 7, 1, 3};  // 16 together
constexpr int32_t kEnd = 60;

ModelSettings packed_model(bool rope) {
  ModelSettings model = rope ? small_llama() : small_gpt3();
  model.hidden_dropout = model.attention_dropout = 0;
  model.micro_batch_size = model.global_batch_size = 1;
  model.max_position_embeddings = 16;
  return model;
}

std::unique_ptr<Backend> make_backend(const std::string& name) {
  if (name == "reference") return std::make_unique<ReferenceBackend>();
  return std::make_unique<CpuBackend>(2);
}

// Loss summed over targets, and the gradients summed likewise.
struct Sums {
  double loss = 0;
  std::vector<std::vector<double>> gradients;

  void add(EngineFixture& engine, double targets, const StepResult& result) {
    loss += result.loss * targets;
    const FlatLayout& layout = engine->layout();
    gradients.resize(layout.table.size());
    for (size_t row = 0; row < layout.table.size(); ++row) {
      gradients[row].resize(static_cast<size_t>(layout.table[row].count()));
      const float* values = engine->grads().views().parameter(row).as<float>();
      for (size_t i = 0; i < gradients[row].size(); ++i) gradients[row][i] += targets * static_cast<double>(values[i]);
    }
  }
};

Sums run(ModelSettings model, const Batch& batch, const std::string& backend, Sums sums = {}) {
  model.encoder_seq_length = batch.sequence;
  EngineFixture engine({.model = model, .precision = Precision::f32}, make_backend(backend));
  const StepResult result = engine.step({batch}, 0);
  sums.add(engine, static_cast<double>(batch.unmasked_targets), result);
  return sums;
}

// The tokens of the packed sample, with an end token at the end of each document.
void put_ends(Batch& batch) {
  int64_t end = 0;
  for (const int64_t length : kLengths) {
    end += length;
    batch.tokens[static_cast<size_t>(end - 1)] = kEnd;
    if (end >= 2) batch.targets[static_cast<size_t>(end - 2)] = kEnd;
  }
}

// What fill_batch makes of the ends, counted from the lengths.
void put_documents(Batch& batch) {
  size_t row = 0;
  batch.document_starts.resize(16);
  for (const int64_t length : kLengths) {
    const auto start = static_cast<int32_t>(row);
    for (int32_t i = 0; i < length; ++i, ++row) batch.positions[row] = i, batch.document_starts[row] = start;
  }
}

class PackedDocuments : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(PackedDocuments, AreAsEachAlone) {
  const auto [backend, rope] = GetParam();
  ModelSettings model = packed_model(rope);
  Batch packed = make_batch(1, 16, kEnd, 3);
  put_ends(packed);
  put_documents(packed);
  Sums alone;
  size_t first = 0;
  for (const int64_t length : kLengths) {
    Batch document(1, length);
    for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
      document.tokens[i] = packed.tokens[first + i];
      document.targets[i] = packed.targets[first + i];
      document.positions[i] = static_cast<int32_t>(i);
    }
    document.unmasked_targets = length;
    first += static_cast<size_t>(length);
    alone = run(model, document, backend, std::move(alone));
  }
  model.data.reset_attention_mask = model.data.reset_position_ids = true;
  const Sums together = run(model, packed, backend);
  // Sums of the same terms in another order, in f32: see kLayoutTolerance. Gradients are compared with the largest of their
  // tensor.
  EXPECT_NEAR(together.loss, alone.loss, kLayoutTolerance * alone.loss);
  for (size_t row = 0; row < alone.gradients.size(); ++row) {
    double largest = 0;
    for (const double value : alone.gradients[row]) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < alone.gradients[row].size(); ++i)
      ASSERT_NEAR(together.gradients[row][i], alone.gradients[row][i], 10 * kLayoutTolerance * largest) << "row " << row;
  }
  // Where documents see each other the loss is another one.
  model.data.reset_attention_mask = false;
  EXPECT_GT(std::abs(run(model, packed, backend).loss - alone.loss), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, PackedDocuments, testing::Combine(testing::Values("reference", "cpu"), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + (std::get<1>(test.param) ? "_rope" : "_learned");
                         });

Layout with_documents(const std::string& name, const MeshShape& shape, const std::function<void(ModelSettings&)>& change = {}) {
  ModelSettings model = small_llama();
  model.vocab_size = 7;  // so that the token that ends documents is in every sample
  model.data.reset_position_ids = model.data.reset_attention_mask = true;
  Layout layout = layout_of(name, model, shape);
  if (change) change(layout.model);
  return layout;
}

class DocumentLayouts : public testing::TestWithParam<Layout> {};

TEST_P(DocumentLayouts, GiveTheLossesOfOneRank) {
  constexpr int kSteps = 3;
  const Layout& layout = GetParam();
  expect_same_as_one_rank(layout, train(layout, kSteps), train(on_one_rank(layout), kSteps)[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DocumentLayouts,
    testing::Values(with_documents("tp2_sp", {.tp = 2}, [](ModelSettings& m) { m.sequence_parallel = true; }),
                    with_documents("pp2", {.pp = 2}), with_documents("cp2", {.cp = 2}),
                    with_documents("recompute", {.dp = 2},
                                   [](ModelSettings& m) { m.activations_checkpoint_granularity = RecomputeGranularity::full; })),
    [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Slow, DocumentLayouts,
                         testing::Values(with_documents("cp4_tp2", {.tp = 2, .cp = 4},
                                                        [](ModelSettings& m) { m.encoder_seq_length = 32; })),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme
