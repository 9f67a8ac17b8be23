#include "config/validate.h"

#include <gtest/gtest.h>

#include "config/user_error.h"

namespace trireme {
namespace {

Settings good() {
  Settings settings;
  settings.model.vocab_size = 50257;
  return settings;
}

TEST(Validate, AcceptsSettingsThatFitTogether) {
  using Change = void (*)(Settings&);
  const Change changes[] = {
      [](Settings&) {},
      [](Settings& s) { s.model.num_query_groups = 4; },
      [](Settings& s) { s.model.num_attention_heads = 7, s.model.kv_channels = 64; },
      [](Settings& s) { s.model.position_embedding_type = PositionEmbedding::rope, s.model.encoder_seq_length = 4096; },
      [](Settings& s) {
        s.model.global_batch_size = 64, s.model.micro_batch_size = 2, s.model.rampup_batch_size = {16, 8, 1000};
      },
      [](Settings& s) { s.model.activations_checkpoint_granularity = RecomputeGranularity::full; },
      [](Settings& s) { s.model.activations_checkpoint_num_layers = 99; },
      [](Settings& s) {
        s.model.data.data_impl = DataImpl::text, s.model.data.data_prefix = {"a.txt"}, s.model.data.splits_string = "1";
        s.model.vocab_size = 0;
      },
      [](Settings& s) { s.model.data.splits_string = "0.9/0.05/0.05"; },
      [](Settings& s) { s.model.optim.sched.min_lr = s.model.optim.lr; },
      [](Settings& s) {
        s.model.activations_checkpoint_granularity = RecomputeGranularity::full;
        s.model.activations_checkpoint_method = RecomputeMethod::block;
        s.model.activations_checkpoint_num_layers = 0;
      },
  };
  int number = 0;
  for (const Change change : changes) {
    Settings settings = good();
    change(settings);
    EXPECT_EQ(user_error_of([&] { validate(settings); }), "") << "change " << number;
    ++number;
  }
}

TEST(Validate, NamesTheKeyTheValueAndWhatWouldWork) {
  struct Case {
    void (*change)(Settings&);
    const char* message;
  };
  const char* splits_hint = ": expected shares of training, validation and test data such as 99990,8,2";
  const Case cases[] = {
      {[](Settings& s) { s.model.num_attention_heads = 7; },
       "model.num_attention_heads=7 does not divide model.hidden_size=768; use 1, 2, 3, 4, 6, 8, 12 or 16, or set "
       "model.kv_channels"},
      {[](Settings& s) { s.model.num_query_groups = 5; },
       "model.num_query_groups=5 does not divide model.num_attention_heads=12; use 1, 2, 3, 4, 6 or 12"},
      {[](Settings& s) { s.model.num_query_groups = 24; },
       "model.num_query_groups=24 does not divide model.num_attention_heads=12; use 1, 2, 3, 4, 6 or 12"},
      {[](Settings& s) { s.model.encoder_seq_length = 4096; },
       "model.encoder_seq_length=4096 is longer than model.max_position_embeddings=2048; use at least 4096 positions"},
      {[](Settings& s) { s.model.position_embedding_type = PositionEmbedding::rope, s.model.rotary_percentage = 0.3; },
       "model.rotary_percentage=0.3 turns 19 of 64 dimensions of a head; rope needs an even number, at least 2"},
      {[](Settings& s) { s.model.position_embedding_type = PositionEmbedding::rope, s.model.rotary_percentage = 0; },
       "model.rotary_percentage=0 turns 0 of 64 dimensions of a head; rope needs an even number, at least 2"},
      {[](Settings& s) { s.model.shared_attention_norm = true; },
       "model.shared_attention_norm=true needs attention and MLP on the same input; set model.parallel_residual=true, or use "
       "false"},
      {[](Settings& s) { s.model.seq_len_interpolation_factor = 4; },
       "model.seq_len_interpolation_factor=4 scales rope, and model.position_embedding_type is not rope; remove one of the two"},
      {[](Settings& s) { s.model.rope_scaling.rope_type = RopeType::linear; },
       "model.rope_scaling.rope_type=linear scales rope, and model.position_embedding_type is not rope; remove one of the two"},
      {[](Settings& s) { s.model.scale_positional_embedding = true, s.model.seq_len_interpolation_factor = 4; },
       "model.scale_positional_embedding=true and model.seq_len_interpolation_factor=4 both scale rope; remove one of the two"},
      {[](Settings& s) { s.model.scale_positional_embedding = true, s.model.rope_scaling.rope_type = RopeType::linear; },
       "model.scale_positional_embedding=true and model.rope_scaling.rope_type=linear both scale rope; remove one of the two"},
      {[](Settings& s) { s.model.seq_len_interpolation_factor = 4, s.model.rope_scaling.rope_type = RopeType::llama3; },
       "model.seq_len_interpolation_factor=4 and model.rope_scaling.rope_type=llama3 both scale rope; remove one of the two"},
      {[](Settings& s) { s.model.global_batch_size = 10, s.model.micro_batch_size = 4; },
       "model.micro_batch_size=4 does not divide model.global_batch_size=10; use 1, 2, 5 or 10"},
      {[](Settings& s) {
         s.model.rampup_batch_size = {1, 2};
       },
       "model.rampup_batch_size=[1,2]: expected [start, increment, samples]"},
      {[](Settings& s) {
         s.model.rampup_batch_size = {2, 1, 5};
       },
       "model.rampup_batch_size=[2,1,5]: start must be from 1 to model.global_batch_size=1"},
      {[](Settings& s) {
         s.model.rampup_batch_size = {1, 0, 5};
       },
       "model.rampup_batch_size=[1,0,5]: increment must be at least 1"},
      {[](Settings& s) {
         s.model.global_batch_size = 16, s.model.micro_batch_size = 4, s.model.rampup_batch_size = {4, 2, 5};
       },
       "model.rampup_batch_size=[4,2,5]: start and increment must be multiples of model.micro_batch_size=4"},
      {[](Settings& s) {
         s.model.global_batch_size = 16, s.model.rampup_batch_size = {4, 5, 5};
       },
       "model.rampup_batch_size=[4,5,5]: increments of 5 do not lead from 4 to model.global_batch_size=16"},
      {[](Settings& s) {
         s.model.activations_checkpoint_granularity = RecomputeGranularity::full;
         s.model.activations_checkpoint_num_layers = 13;
       },
       "model.activations_checkpoint_num_layers=13: expected 1 to 12, the layers of the model"},
      {[](Settings& s) {
         s.model.activations_checkpoint_granularity = RecomputeGranularity::full;
         s.model.activations_checkpoint_num_layers = 0;
       },
       "model.activations_checkpoint_num_layers=0: expected 1 to 12, the layers of the model"},
      {[](Settings& s) { s.model.optim.sched.min_lr = 1; },
       "model.optim.sched.min_lr=1 is larger than model.optim.lr=0.0006; use at most that"},
      {[](Settings& s) { s.model.vocab_size = 0; },
       "model.vocab_size must be given: data_impl mock has no tokenizer; use for example 50257"},
      {[](Settings& s) { s.model.data.data_impl = DataImpl::text; },
       "model.data.data_prefix must be given: data_impl text needs files, for example [a.txt]"},
      {[](Settings& s) {
         s.model.data.data_impl = DataImpl::text, s.model.data.data_prefix = {"0.5", "a.txt"};
       },
       "model.data.data_prefix: weights such as 0.5 are not supported with data_impl text; list only files"},
      {[](Settings& s) { s.model.data.data_impl = DataImpl::mmap; },
       "model.data.data_prefix must be given: data_impl mmap needs datasets, for example [1.0, data/my-gpt3_00_text_document]"},
      {[](Settings& s) { s.model.fp8.enabled = true, s.model.fp8.hybrid = false; },
       "model.fp8=true with model.fp8_hybrid=false and model.fp8_e4m3=false: one of the two must be true; use fp8_hybrid"},
      {[](Settings& s) { s.model.fp8.enabled = true, s.trainer.precision = Precision::f32; },
       "model.fp8=true with trainer.precision=32: what is not FP8 must be bf16; use trainer.precision=bf16"},
      {[](Settings& s) {
         s.model.fp8.enabled = true, s.trainer.precision = Precision::bf16;
         s.model.ffn_hidden_size = 3000;
       },
       "model.fp8=true needs multiples of 16: model.ffn_hidden_size is 3000; use another, or model.fp8=false"},
      {[](Settings& s) { s.model.fp8.enabled = true, s.model.fp8.e4m3 = true; },
       "model.fp8=true with model.fp8_hybrid=true and model.fp8_e4m3=true: one of the two must be true; use fp8_hybrid"},
      {[](Settings& s) { s.model.profile.enabled = true, s.model.profile.start_step = 11; },
       "model.nsys_profile.end_step=10 lies before model.nsys_profile.start_step=11; use at least that"},
      {[](Settings& s) {
         s.model.profile.enabled = true, s.model.profile.ranks = {0, 8};
       },
       "model.nsys_profile.ranks: there is no rank 8; use ranks from 0 to 0"},
      {[](Settings& s) { s.model.hidden_size = 1 << 20, s.model.num_layers = 10'000, s.model.num_attention_heads = 1 << 13; },
       "model.hidden_size=1048576 with model.num_layers=10000 makes 4.4e+16 parameters; the limit is 1e+15"},
      {[](Settings& s) {
         s.model.micro_batch_size = s.model.global_batch_size = 1 << 20;
         s.model.encoder_seq_length = s.model.max_position_embeddings = 1 << 24;
       },
       "model.micro_batch_size=1048576 with model.encoder_seq_length=16777216 makes tensors of 3.5e+21 elements; the limit is "
       "1e+15"},
  };
  for (const Case& c : cases) {
    Settings settings = good();
    c.change(settings);
    EXPECT_EQ(user_error_of([&] { validate(settings); }), c.message);
  }
  for (const char* splits : {"", "a,b", "1,2,3,4", "0,1", "-1,2", "1,,2", ".inf,1"}) {
    Settings settings = good();
    settings.model.data.splits_string = splits;
    EXPECT_EQ(user_error_of([&] { validate(settings); }), fmt::format("model.data.splits_string={}{}", splits, splits_hint));
  }
}

TEST(RotaryDims, AreAShareOfTheHead) {
  ModelSettings model;
  EXPECT_EQ(model.rotary_dims(), 0);
  model.position_embedding_type = PositionEmbedding::rope;
  EXPECT_EQ(model.rotary_dims(), 64);
  model.rotary_percentage = 0.25;
  EXPECT_EQ(model.rotary_dims(), 16);
  model.kv_channels = 100;
  model.rotary_percentage = 0.29;  // 0.29 * 100 is a little less than 29 in double
  EXPECT_EQ(model.rotary_dims(), 29);
}

}  // namespace
}  // namespace trireme
