// Training with FP8 linear layers on a GPU. Runs where one with FP8 is.
#include "support/fp8_training.h"
#include "support/gpu.h"
#include "support/skip.h"

namespace trireme {
namespace {

class CudaFp8Engine : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    if (!make_cuda_backend()->has_fp8()) SKIP_FOR(gpu) << "this GPU has no FP8";
  }

  // Heads as cuDNN serves them.
  static ModelSettings wide_model() {
    ModelSettings model = small_model();
    model.hidden_size = 256;
    model.ffn_hidden_size = 1024;
    model.encoder_seq_length = model.max_position_embeddings = 128;
    model.init_method_std = 0.02;
    return model;
  }

  Fp8Training training_{wide_model(), [] { return make_cuda_backend(); }};
};

TEST_F(CudaFp8Engine, LossesOfTwoHundredStepsAreThoseOfBf16) {
  for (const ModelSettings& model : training_.families()) training_.losses_are_those_of_bf16(model, 200, 5e-5, 0.02);
}

TEST_F(CudaFp8Engine, FirstStepHasTheGradientsOfBf16) {
  for (const ModelSettings& model : training_.families()) {
    training_.first_step_has_the_gradients_of_bf16(model);
    training_.first_step_has_the_gradients_of_bf16(training_.with_dropout(model));
  }
}

TEST_F(CudaFp8Engine, TwoRunsGiveEqualBits) {
  Fp8Training::expect_equal(training_.train(training_.gpt3(), 10), training_.train(training_.gpt3(), 10));
}

TEST_F(CudaFp8Engine, RecomputeModesGiveEqualBits) {
  for (const ModelSettings& model : training_.families()) training_.recompute_modes_give_equal_bits(model);
}

TEST_F(CudaFp8Engine, EvaluationLeavesNoTrace) { training_.evaluation_leaves_no_trace(training_.gpt3()); }

TEST_F(CudaFp8Engine, ResumedRunRepeatsTheUninterruptedOne) {
  training_.resumed_run_repeats_the_uninterrupted_one(training_.gpt3());
}

TEST_F(CudaFp8Engine, WeightsInFp8OnlyTrainAlike) {
  for (const ModelSettings& model : training_.families()) training_.needs_no_wide_weights(model);
}

TEST_F(CudaFp8Engine, HeadCanBeInFp8Too) {
  training_.makes_the_head_in_fp8_too(training_.gpt3());
  training_.makes_the_head_in_fp8_too(training_.neox());
}

TEST_F(CudaFp8Engine, TensorsCanBeScaledByThemselves) { training_.scales_tensors_by_themselves(training_.gpt3()); }

}  // namespace
}  // namespace trireme
