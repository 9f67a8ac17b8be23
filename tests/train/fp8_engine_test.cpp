// Training with FP8 linear layers as the reference backend specifies it.
#include "backend/reference/reference_backend.h"
#include "support/fp8_training.h"
#include "support/scribbling_backend.h"

namespace trireme {
namespace {

const Fp8Training kTraining{small_model(),
                            [] { return std::make_unique<ScribblingBackend>(std::make_unique<ReferenceBackend>()); }};

// Over widths of 32 little averages out.
TEST(Fp8EngineSlow, LossesAreThoseOfBf16) { kTraining.losses_are_those_of_bf16(kTraining.gpt3(), 30, 3e-3, 0.03); }

TEST(Fp8Engine, FirstStepHasTheGradientsOfBf16) {
  for (const ModelSettings& model : kTraining.families()) {
    kTraining.first_step_has_the_gradients_of_bf16(model);
    kTraining.first_step_has_the_gradients_of_bf16(kTraining.with_dropout(model));
  }
}

TEST(Fp8Engine, RecomputeModesGiveEqualBits) {
  kTraining.recompute_modes_give_equal_bits(kTraining.with_dropout(kTraining.neox()));
}

TEST(Fp8EngineSlow, RecomputeModesGiveEqualBitsInEveryFamily) {
  for (const ModelSettings& model : kTraining.families()) kTraining.recompute_modes_give_equal_bits(model);
}

TEST(Fp8Engine, EvaluationLeavesNoTrace) { kTraining.evaluation_leaves_no_trace(kTraining.gpt3()); }

TEST(Fp8Engine, ResumedRunRepeatsTheUninterruptedOne) { kTraining.resumed_run_repeats_the_uninterrupted_one(kTraining.gpt3()); }

TEST(Fp8EngineSlow, WeightsInFp8OnlyTrainAlike) {
  for (const ModelSettings& model : kTraining.families()) kTraining.needs_no_wide_weights(model);
}

TEST(Fp8Engine, HeadCanBeInFp8Too) { kTraining.makes_the_head_in_fp8_too(kTraining.gpt3()); }

TEST(Fp8EngineSlow, AHeadOfItsOwnCanBeInFp8Too) { kTraining.makes_the_head_in_fp8_too(kTraining.neox()); }

TEST(Fp8Engine, TensorsCanBeScaledByThemselves) { kTraining.scales_tensors_by_themselves(kTraining.gpt3()); }

}  // namespace
}  // namespace trireme
