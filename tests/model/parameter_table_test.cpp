#include "model/parameter_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/reference_backend.h"
#include "model/weights.h"

namespace trireme {
namespace {

ModelSettings gpt3(int64_t layers, int64_t width, int64_t heads, int64_t tp) {
  ModelSettings model;
  model.num_layers = layers;
  model.hidden_size = width;
  model.ffn_hidden_size = 4 * width;
  model.num_attention_heads = heads;
  model.vocab_size = 50257;
  model.tensor_model_parallel_size = tp;
  return model;
}

ModelSettings improved(int64_t layers, int64_t width, int64_t ffn, int64_t heads, int64_t tp) {
  ModelSettings model = gpt3(layers, width, heads, tp);
  model.ffn_hidden_size = ffn;
  model.position_embedding_type = PositionEmbedding::rope;
  model.normalization = Normalization::layernorm1p;
  model.activation = MlpActivation::swiglu;
  model.bias = model.share_embeddings_and_output_weights = false;
  return model;
}

// Published counts of the GPT-3 family.
TEST(ParameterTableTest, CountsEqualThePublishedOnes) {
  const auto count = [](const ModelSettings& model) { return parameter_count(parameter_table(model)); };
  EXPECT_EQ(count(gpt3(12, 768, 12, 1)), 125'262'336);
  EXPECT_EQ(count(gpt3(24, 4096, 32, 1)), 5'047'558'144);
  EXPECT_EQ(count(gpt3(96, 12288, 96, 4)), 174'609'555'456);
  EXPECT_EQ(count(improved(24, 1024, 2688, 16, 1)), 401'967'104);
  EXPECT_EQ(count(improved(32, 4096, 10880, 32, 4)), 6'841'442'304);
}

TEST(ParameterTableTest, DecaysMatricesOnly) {
  for (const ParameterRow& row : parameter_table(gpt3(2, 64, 4, 1)))
    EXPECT_EQ(row.decay == WeightDecay::yes, row.shape.rank() == 2) << row.name;
}

// Draws are keyed by name and element: a deeper model starts its first blocks with the same values, and padding rows are zero.
TEST(ParameterTableTest, InitialisationDependsOnNothingButSeedAndName) {
  ReferenceBackend backend;
  const auto draw = [&](ModelSettings model, const std::string& name) {
    model.max_position_embeddings = 8;
    model.vocab_size = 50;
    const FlatLayout layout = FlatLayout::of(model);
    std::vector<float> flat(static_cast<size_t>(layout.count), -1.0f);
    const Tensor masters{.data = flat.data(), .dtype = DType::f32, .shape = {layout.count}, .device = Device::host};
    for (const Bucket& bucket : layout.buckets)
      initialise(layout, bucket, 5, backend, masters.rows(bucket.all.begin, bucket.all.count));
    const auto values =
        FlatViews(layout, model, masters, layout.offsets).parameter(static_cast<size_t>(layout.find(name))).span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::string name = "blocks.1.attention.qkv.weight";
  EXPECT_EQ(draw(gpt3(2, 32, 4, 1), name), draw(gpt3(5, 32, 4, 1), name));
  const auto words = draw(gpt3(2, 32, 4, 1), "embedding.word");
  double squares = 0;
  for (size_t i = 0; i < 50 * 32; ++i) squares += std::pow(static_cast<double>(words[i]), 2);
  // 1600 draws: their mean square has a relative deviation of sqrt(2/1600) = 3.5%; five of those.
  EXPECT_NEAR(std::sqrt(squares / 1600) / 0.02, 1, 0.09);
  for (size_t i = 50 * 32; i < words.size(); ++i) ASSERT_EQ(words[i], 0.0f);
  for (const float value : draw(gpt3(2, 32, 4, 1), "blocks.0.norm1.weight")) ASSERT_EQ(value, 1.0f);
}

}  // namespace
}  // namespace trireme
