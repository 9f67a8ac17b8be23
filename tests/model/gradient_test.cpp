// Gradients of every layer option against finite differences, and recompute modes against none.
//
// The model runs on the reference backend with activations and weights in f64, so the only rounding left is that of the
// statistics and losses, which are f32: about 1e-7 of a mean loss of about 4. A four-point difference with step h = 0.02 turns
// that into an error of about 4e-7 / h = 2e-5, and its own error h^4 f^(5) / 30 is below 1e-8 for these models. Tolerance: 5e-5
// absolute along a unit direction.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/reference/reference_backend.h"
#include "model/gpt.h"

namespace trireme {
namespace {

struct Case {
  std::string name;
  std::function<void(ModelSettings&)> change;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

ModelSettings base_settings() {
  ModelSettings model;
  model.num_layers = 2;
  model.hidden_size = 12;
  model.ffn_hidden_size = 20;
  model.num_attention_heads = 2;
  model.vocab_size = 19;
  model.make_vocab_size_divisible_by = 8;
  model.encoder_seq_length = model.max_position_embeddings = 5;
  model.micro_batch_size = 2;
  model.init_method_std = 0.3;
  model.hidden_dropout = model.attention_dropout = 0;
  return model;
}

// The model on the reference backend, with everything in f64 that the ops allow.
class Model {
 public:
  explicit Model(const ModelSettings& settings)
      : settings_(settings),
        dims_(dims_of(settings_, settings_.micro_batch_size, settings_.encoder_seq_length)),
        layout_(FlatLayout::of(settings_)),
        weights_(layout_, settings_, backend_, parameters_.take({layout_.count}, DType::f64)),
        grads_(layout_, settings_, backend_, mesh_, parameters_.take({layout_.count}, DType::f64), {}),
        gpt_(settings_, {}, 0, dims_, DType::f64, backend_, mesh_, {1, 1, 1, 0}, activations_, nullptr),
        scalars_(parameters_.take({kStepScalars}, DType::f64)) {
    for (const Bucket& bucket : layout_.buckets)
      initialise(layout_, bucket, 7, backend_, weights().flat().rows(bucket.all.begin, bucket.all.count));
    // Norms and biases away from their special starting values, so that their gradients are put to the test.
    std::mt19937 random(3);
    std::normal_distribution<double> normal(0, 0.2);
    for (size_t row = 0; row < layout_.table.size(); ++row) {
      if (layout_.table[row].init == InitKind::normal) continue;
      const std::span<double> values = weights().parameter(row).span<double>();
      for (double& value : values) value += normal(random);
    }
    fill_batch();
  }

  double loss() {
    std::fill_n(scalars_.as<double>(), kStepScalars, 0.0);
    scalars_.as<double>()[static_cast<int64_t>(StepScalar::inverse_targets)] = 1.0 / targets_;
    activations_.rewind(0);
    gpt_.forward(pass_, Mode::training, {}, {}, weights_, grads_, scalars_);
    return scalars_.as<double>()[static_cast<int64_t>(StepScalar::loss_sum)] / targets_;
  }

  void gradients() {
    std::fill_n(grads_.views().flat().as<double>(), layout_.count, 0.0);
    loss();
    gpt_.backward(pass_, Wgrad::with_dgrad, {}, {}, weights_, grads_);
  }

  const FlatViews& weights() const { return weights_.views(); }
  const FlatViews& grads() const { return grads_.views(); }
  const FlatLayout& layout() const { return layout_; }

 private:
  void fill_batch() {
    DeviceBatch& batch = pass_.batch;
    batch = {.tokens = parameters_.take({dims_.N()}, DType::i32),
             .targets = parameters_.take({dims_.N()}, DType::i32),
             .positions = parameters_.take({dims_.N()}, DType::i32),
             .row_keys = parameters_.take({dims_.N()}, DType::i64)};
    for (int64_t n = 0; n < dims_.N(); ++n) {
      batch.tokens.as<int32_t>()[n] = static_cast<int32_t>((n * 7 + 3) % dims_.V);
      batch.targets.as<int32_t>()[n] = n == 4 ? -1 : static_cast<int32_t>((n * 5 + 1) % dims_.V);
      batch.positions.as<int32_t>()[n] = static_cast<int32_t>(n % dims_.T);
      batch.row_keys.as<int64_t>()[n] = 1000 + n;
    }
    targets_ = static_cast<double>(dims_.N() - 1);
  }

  static Arena arena(const char* name) {
    return Arena(name, 1 << 22, [](int64_t bytes) { return ReferenceBackend().allocate(bytes); });
  }

  ModelSettings settings_;
  Dims dims_;
  FlatLayout layout_;
  ReferenceBackend backend_;
  Mesh mesh_ = Mesh::solo();
  Arena parameters_ = arena("parameters"), activations_ = arena("activations");
  Weights weights_;
  Grads grads_;
  Gpt gpt_;
  ChunkPass pass_;
  Tensor scalars_;
  double targets_ = 0;
};

class GradientTest : public testing::TestWithParam<Case> {};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  ModelSettings settings = base_settings();
  GetParam().change(settings);
  Model model(settings);
  model.gradients();
  // forward makes the head's gradients as well, so the ones to test are put aside first.
  const std::vector<double> all_grads(model.grads().flat().as<double>(),
                                      model.grads().flat().as<double>() + model.layout().count);
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (size_t row = 0; row < model.layout().table.size(); ++row) {
    const auto values = model.weights().parameter(row).span<double>();
    const double* grads = all_grads.data() + model.layout().offsets[row];
    const auto count = static_cast<size_t>(model.layout().table[row].count());
    for (int trial = 0; trial < 2; ++trial) {
      std::vector<double> direction(count), start(values.begin(), values.end());
      double length = 0, expected = 0;
      for (double& x : direction) x = normal(random), length += x * x;
      for (double& x : direction) x /= std::sqrt(length);
      for (size_t i = 0; i < count; ++i) expected += direction[i] * grads[i];
      const auto loss_at = [&](double distance) {
        for (size_t i = 0; i < count; ++i) values[i] = start[i] + distance * direction[i];
        return model.loss();
      };
      const double h = 0.02;
      const double slope = (8 * (loss_at(h) - loss_at(-h)) - (loss_at(2 * h) - loss_at(-2 * h))) / (12 * h);
      loss_at(0);
      EXPECT_NEAR(slope, expected, 5e-5) << model.layout().table[row].name;
    }
  }
}

// Recompute runs the same ops on the same values, so the gradients have equal bits.
TEST_P(GradientTest, RecomputeGivesEqualBits) {
  ModelSettings settings = base_settings();
  settings.num_layers = 3;
  GetParam().change(settings);
  Model kept(settings);
  kept.gradients();
  const auto expected = kept.grads().flat().span<double>();
  const auto check = [&](RecomputeGranularity granularity, RecomputeMethod method, int64_t layers) {
    settings.activations_checkpoint_granularity = granularity;
    settings.activations_checkpoint_method = method;
    settings.activations_checkpoint_num_layers = layers;
    Model model(settings);
    model.gradients();
    const auto grads = model.grads().flat().span<double>();
    EXPECT_TRUE(std::equal(grads.begin(), grads.end(), expected.begin()))
        << static_cast<int>(granularity) << " " << static_cast<int>(method) << " " << layers;
  };
  check(RecomputeGranularity::selective, RecomputeMethod::uniform, 1);
  for (int64_t layers = 1; layers <= 3; ++layers) check(RecomputeGranularity::full, RecomputeMethod::uniform, layers);
  for (int64_t layers = 1; layers <= 3; ++layers) check(RecomputeGranularity::full, RecomputeMethod::block, layers);
}

void neox(ModelSettings& m) {
  m.position_embedding_type = PositionEmbedding::rope;
  m.rotary_percentage = 0.5;
  m.kv_channels = 4;
  m.parallel_residual = true;
  m.activation = MlpActivation::gelu_erf;
  m.share_embeddings_and_output_weights = false;
}

void llama(ModelSettings& m) {
  m.position_embedding_type = PositionEmbedding::rope;
  m.normalization = Normalization::rmsnorm;
  m.activation = MlpActivation::swiglu;
  m.bias = false;
  m.share_embeddings_and_output_weights = false;
  m.num_attention_heads = 4;
  m.num_query_groups = 2;
  m.kv_channels = 2;
}

INSTANTIATE_TEST_SUITE_P(
    Options, GradientTest,
    testing::Values(Case{"gpt3", [](ModelSettings&) {}},  //
                    Case{"dropout", [](ModelSettings& m) { m.hidden_dropout = 0.3, m.attention_dropout = 0.4; }},
                    Case{"neox", neox},  //
                    Case{"shared_norm", [](ModelSettings& m) { neox(m), m.shared_attention_norm = true; }},
                    Case{"neox_dropout", [](ModelSettings& m) { neox(m), m.hidden_dropout = 0.3, m.attention_dropout = 0.2; }},
                    Case{"llama", llama},  //
                    Case{"improved",
                         [](ModelSettings& m) {
                           llama(m);
                           m.normalization = Normalization::layernorm1p;
                           m.num_query_groups = 0;
                           m.rotary_percentage = 1.0;
                         }},
                    Case{"no_positions", [](ModelSettings& m) { m.position_embedding_type = PositionEmbedding::none; }},
                    Case{"untied_no_bias", [](ModelSettings& m) { m.share_embeddings_and_output_weights = m.bias = false; }},
                    Case{"wide_heads", [](ModelSettings& m) { m.kv_channels = 8; }}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme
