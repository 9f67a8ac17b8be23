// One norm for attention and MLP is two norms with equal parameters: the same loss, and the sum of their gradients.
#include <gtest/gtest.h>

#include "support/layouts.h"

namespace trireme {
namespace {

std::map<std::string, std::vector<float>> gradients_of(EngineFixture& engine) {
  std::map<std::string, std::vector<float>> gradients;
  const FlatLayout& layout = engine->layout();
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const auto values = engine->grads().views().parameter(row).span<float>();
    gradients[layout.table[row].name] = {values.begin(), values.end()};
  }
  return gradients;
}

TEST(SharedNorm, HasTheGradientsOfTwo) {
  ModelSettings model = small_model();
  model.parallel_residual = true;
  EngineFixture two({.model = model, .precision = Precision::f32}, std::make_unique<CpuBackend>(1));
  model.shared_attention_norm = true;
  EngineFixture one({.model = model, .precision = Precision::f32}, std::make_unique<CpuBackend>(1));
  const std::vector<Batch> batches = {make_batch(2, model.encoder_seq_length, model.vocab_size, 0)};
  // Weights are drawn by name, and all norms start equal.
  EXPECT_EQ(one.step(batches, 0).loss, two.step(batches, 0).loss);
  const auto shared = gradients_of(one), expected = gradients_of(two);
  EXPECT_EQ(shared.size() + static_cast<size_t>(2 * model.num_layers), expected.size());
  for (const auto& [name, values] : shared) {
    const size_t norm = name.find("norm1");
    if (norm == std::string::npos) {
      EXPECT_EQ(values, expected.at(name)) << name;
      continue;
    }
    const std::vector<float>&first = expected.at(name), &second = expected.at(std::string(name).replace(norm, 5, "norm2"));
    for (size_t i = 0; i < values.size(); ++i)  // the same terms in another order, in f32
      EXPECT_NEAR(values[i], first[i] + second[i], 1e-5 * (std::abs(first[i]) + std::abs(second[i]) + 1e-3)) << name;
  }
}

Layout shared_norm(const std::string& name, const MeshShape& shape, const std::function<void(ModelSettings&)>& change = {}) {
  ModelSettings model = small_gpt3();
  model.parallel_residual = model.shared_attention_norm = true;
  Layout layout = layout_of(name, model, shape);
  if (change) change(layout.model);
  return layout;
}

class SharedNormLayouts : public testing::TestWithParam<Layout> {};

TEST_P(SharedNormLayouts, GiveTheLossesOfOneRank) {
  constexpr int kSteps = 3;
  const Layout& layout = GetParam();
  expect_same_as_one_rank(layout, train(layout, kSteps), train(on_one_rank(layout), kSteps)[0]);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SharedNormLayouts,
                         testing::Values(shared_norm("tp2_sp", {.tp = 2}, [](ModelSettings& m) { m.sequence_parallel = true; }),
                                         shared_norm("dp2_overlap", {.dp = 2},
                                                     [](ModelSettings& m) { m.optim.overlap_grad_sync = true; })),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme
