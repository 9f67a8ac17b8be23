// Linear scaling of rope divides positions: a model with the factor 2 on positions 0, 2, 4, ... is the plain model on 0, 1, 2,
// ...
#include <gtest/gtest.h>

#include "support/layouts.h"

namespace trireme {
namespace {

double loss_of(const ModelSettings& model, int32_t distance) {
  Batch batch = make_batch(model.micro_batch_size, model.encoder_seq_length, model.vocab_size, 0);
  for (int32_t& position : batch.positions) position *= distance;
  EngineFixture engine({.model = model, .precision = Precision::f32}, std::make_unique<CpuBackend>(1));
  return engine.step({batch}, 0).loss;
}

TEST(RopeScaling, LinearDividesPositionsUnderEitherName) {
  ModelSettings plain = small_llama();
  plain.micro_batch_size = plain.global_batch_size = 1;
  plain.rotary_base = 100;
  ModelSettings nemo = plain, transformers = plain;
  nemo.seq_len_interpolation_factor = 2;
  transformers.rope_scaling = {.rope_type = RopeType::linear, .factor = 2};
  // Equal bits: dividing a frequency by two and multiplying a position by two are exact.
  EXPECT_EQ(loss_of(nemo, 2), loss_of(plain, 1));
  EXPECT_EQ(loss_of(transformers, 2), loss_of(plain, 1));
  EXPECT_NE(loss_of(nemo, 1), loss_of(plain, 1));
}

}  // namespace
}  // namespace trireme
