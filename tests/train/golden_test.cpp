// Six training steps of four small models against PyTorch in double precision (tests/golden).
//
// Tolerances: tests/golden/README.md has the largest differences that PyTorch itself shows when it makes these steps in float32
// (loss 1.7e-6, gradient norm 5.3e-7, gradients 1.4e-6 of the largest of a tensor, final parameters 2.6e-5). A correct
// implementation adds in another order, so each tolerance is about five times the largest of them.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/file.h"
#include "config/overrides.h"
#include "config/settings_reader.h"
#include "support/engine_fixture.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {
namespace {

constexpr double kLossTolerance = 1e-5, kNormTolerance = 3e-6, kGradTolerance = 7e-6, kFinalTolerance = 1.3e-4;

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : file_(File::open(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/" + name + ".safetensors")),
        header_(read_safetensors_header(file_)) {}

  template <class T>
  std::vector<T> read(const std::string& name) const {
    for (const SafetensorsTensor& tensor : header_.tensors) {
      if (tensor.name != name) continue;
      CHECK(tensor.dtype == kDTypeOf<T>);
      std::vector<T> values(static_cast<size_t>(tensor.shape.count()));
      file_.read_at(tensor.begin, std::as_writable_bytes(std::span(values)));
      return values;
    }
    throw Failure("no {} in the golden file", name);
  }

  Settings settings() const {
    Tree recipe{Tree::Map{}};
    for (const auto& [key, value] : header_.metadata) apply_override(recipe, parse_override("++" + key + "=" + value));
    return read_settings(recipe).settings;
  }

 private:
  File file_;
  SafetensorsHeader header_;
};

Batch golden_batch(const GoldenFile& golden, const ModelSettings& model) {
  Batch batch = make_batch(model.micro_batch_size, model.encoder_seq_length, model.vocab_size, 0);
  batch.tokens = golden.read<int32_t>("tokens");
  batch.targets = golden.read<int32_t>("targets");
  batch.unmasked_targets = std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
  return batch;
}

// The bias of the keys moves all scores of a query alike, which softmax ignores: its gradient is nothing but rounding.
bool is_key_bias(const ModelSettings& model, const std::string& name, int64_t i) {
  const int64_t queries = model.num_attention_heads * model.head_width(), keys = model.groups() * model.head_width();
  return name.ends_with("attention.qkv.bias") && i >= queries && i < queries + keys;
}

struct GoldenCase {
  std::string model, backend;
  friend void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.model << " on " << c.backend; }
};

class GoldenTest : public testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenTest, SixStepsMatchPyTorch) {
  const GoldenFile golden(GetParam().model);
  const Settings settings = golden.settings();
  std::unique_ptr<Backend> backend;
  if (GetParam().backend == "reference")
    backend = std::make_unique<ReferenceBackend>();
  else
    backend = std::make_unique<CpuBackend>(2);
  EngineFixture engine(
      {.model = settings.model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val},
      std::move(backend));
  const FlatLayout& layout = engine->layout();
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const auto values = golden.read<float>("param." + layout.table[row].name);
    ASSERT_EQ(static_cast<int64_t>(values.size()), layout.table[row].count()) << layout.table[row].name;
    std::copy(values.begin(), values.end(), engine.master(row).data());
  }
  engine->restore_updates(0);

  const std::vector<Batch> batch{golden_batch(golden, settings.model)};
  const auto lrs = golden.read<double>("lrs"), losses = golden.read<double>("losses"), norms = golden.read<double>("grad_norms");
  for (size_t step = 0; step < lrs.size(); ++step) {
    const StepResult result = engine.step(batch, lrs[step]);
    EXPECT_NEAR(result.loss, losses[step], kLossTolerance) << "step " << step;
    EXPECT_NEAR(result.grad_norm / norms[step], 1, kNormTolerance) << "step " << step;
    if (step > 0) continue;
    for (size_t row = 0; row < layout.table.size(); ++row) {
      const std::string& name = layout.table[row].name;
      const auto expected = golden.read<float>("grad." + name);
      const float* actual = engine->grads().views().parameter(row).as<float>();
      float largest = 0;
      for (const float value : expected) largest = std::max(largest, std::abs(value));
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(actual[i], expected[i], kGradTolerance * static_cast<double>(largest)) << name << "[" << i << "]";
    }
  }
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const std::string& name = layout.table[row].name;
    const auto expected = golden.read<float>("final." + name);
    const float* actual = engine.master(row).data();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (is_key_bias(settings.model, name, static_cast<int64_t>(i))) continue;
      ASSERT_NEAR(actual[i], expected[i], kFinalTolerance) << name << "[" << i << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Values(GoldenCase{"gpt3", "reference"}, GoldenCase{"neox", "reference"},
                                         GoldenCase{"llama", "reference"}, GoldenCase{"improved", "reference"},
                                         GoldenCase{"gpt3", "cpu"}, GoldenCase{"neox", "cpu"}, GoldenCase{"llama", "cpu"},
                                         GoldenCase{"improved", "cpu"}),
                         [](const auto& test) { return test.param.model + "_" + test.param.backend; });

}  // namespace
}  // namespace trireme
