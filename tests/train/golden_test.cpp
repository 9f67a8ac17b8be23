// Six training steps of four small models against PyTorch in double precision (tests/golden).
//
// Tolerances: tests/golden/README.md has the largest differences that PyTorch itself shows when it makes these steps in float32
// (loss 1.7e-6, gradient norm 5.3e-7, gradients 1.4e-6 of the largest of a tensor, final parameters 2.6e-5). A correct
// implementation adds in another order, so each tolerance is about five times the largest of them.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "support/golden_file.h"

namespace trireme {
namespace {

constexpr double kLossTolerance = 1e-5, kNormTolerance = 3e-6, kGradTolerance = 7e-6, kFinalTolerance = 1.3e-4;

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
  golden.set_parameters(engine);

  const std::vector<Batch> batch{golden.batch(settings.model)};
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
