#include "config/validate_layout.h"

#include <gtest/gtest.h>

#include "config/user_error.h"

namespace trireme {
namespace {

void validate_both(const Settings& settings) {
  validate_layout(settings.model);
  validate_rank_count(settings);
}

// GPT-3 175B on 1024 ranks: TP 4, PP 8 with 6 chunks, 32 copies, 64 micro-batches.
Settings large() {
  Settings settings;
  settings.trainer.num_nodes = 128;
  settings.trainer.devices = 8;
  ModelSettings& model = settings.model;
  model.num_layers = 96;
  model.hidden_size = 12288;
  model.ffn_hidden_size = 49152;
  model.num_attention_heads = 96;
  model.global_batch_size = 2048;
  model.tensor_model_parallel_size = 4;
  model.pipeline_model_parallel_size = 8;
  model.virtual_pipeline_model_parallel_size = 6;
  model.sequence_parallel = true;
  return settings;
}

TEST(ValidateLayout, AcceptsWhatTheReferenceSystemsRan) {
  using Change = void (*)(Settings&);
  const Change changes[] = {
      [](Settings&) {},
      [](Settings& s) { s.trainer.num_nodes = 64, s.model.micro_batch_size = 2; },
      // 24 nodes, 6 micro-batches on 6 stages
      [](Settings& s) {
        s.trainer.num_nodes = 24, s.model.global_batch_size = 48;
        s.model.pipeline_model_parallel_size = 6, s.model.virtual_pipeline_model_parallel_size = 8;
      },
      // long context: 16 ranks a sequence
      [](Settings& s) {
        s.model.encoder_seq_length = 32768, s.model.context_parallel_size = 16, s.trainer.num_nodes = 64;
        s.model.global_batch_size = 32;
      },
      // fewer layers beside the embedding and the output
      [](Settings& s) {
        s.model.num_layers = 84, s.model.num_layers_in_first_pipeline_stage = s.model.num_layers_in_last_pipeline_stage = 6;
      },
      // sequence parallelism of one rank is none
      [](Settings& s) { s.model.tensor_model_parallel_size = 1; },
      [](Settings& s) { s.model.num_query_groups = 8; },
      [](Settings& s) {
        s.model.activations_checkpoint_granularity = RecomputeGranularity::full, s.model.activations_checkpoint_num_layers = 2;
      },
  };
  int number = 0;
  for (const Change change : changes) {
    Settings settings = large();
    change(settings);
    EXPECT_EQ(user_error_of([&] { validate_both(settings); }), "") << "change " << number;
    ++number;
  }
}

TEST(ValidateLayout, NamesTheSizesAndWhatWouldWork) {
  struct Case {
    void (*change)(Settings&);
    const char* message;
  };
  const Case cases[] = {
      {[](Settings& s) { s.trainer.num_nodes = 5; },
       "trainer.num_nodes=5 with trainer.devices=8 makes 40 ranks, and tensor 4 x pipeline 8 x context 1 parallelism needs a "
       "multiple of 32; use 32 or 64 ranks, for example trainer.num_nodes=4"},
      {[](Settings& s) { s.trainer.num_nodes = s.trainer.devices = 1; },
       "trainer.num_nodes=1 with trainer.devices=1 makes 1 ranks, and tensor 4 x pipeline 8 x context 1 parallelism needs a "
       "multiple of 32; use 32 ranks, for example trainer.num_nodes=32"},
      {[](Settings& s) { s.model.num_attention_heads = 54; },
       "model.tensor_model_parallel_size=4 does not divide model.num_attention_heads=54; use 1, 2, 3, 6, 9, 18, 27 or 54"},
      {[](Settings& s) { s.model.num_query_groups = 6; },
       "model.tensor_model_parallel_size=4 does not divide model.num_query_groups=6; use 1, 2, 3 or 6"},
      {[](Settings& s) { s.model.ffn_hidden_size = 10; },
       "model.tensor_model_parallel_size=4 does not divide model.ffn_hidden_size=10; use 1, 2, 5 or 10"},
      {[](Settings& s) { s.model.global_batch_size = 2000; },
       "model.global_batch_size=2000 is not a multiple of model.micro_batch_size=1 x 32 data parallel ranks; use 1984 or 2016 "
       "samples"},
      {[](Settings& s) {
         s.model.rampup_batch_size = {32, 16, 1000};
       },
       "model.rampup_batch_size=[32,16,1000]: start and increment must be multiples of model.micro_batch_size=1 x 32 data "
       "parallel ranks = 32"},
      {[](Settings& s) {  // micro-batches of a step of the ramp come in groups of the pipeline, too
         s.model.global_batch_size = 512;
         s.model.rampup_batch_size = {256, 32, 1000};
       },
       "model.rampup_batch_size=[256,32,1000]: the interleaved pipeline needs a start and an increment that are multiples of "
       "model.pipeline_model_parallel_size=8 x model.micro_batch_size=1 x 32 data parallel ranks = 256"},
      {[](Settings& s) { s.model.pipeline_model_parallel_size = 1, s.model.num_layers = 12; },
       "model.virtual_pipeline_model_parallel_size=6 needs model.pipeline_model_parallel_size above 1; use null or more pipeline "
       "ranks"},
      {[](Settings& s) { s.model.num_layers = 100; },
       "model.pipeline_model_parallel_size=8 does not divide model.num_layers=100; use 1, 2, 4, 5, 10, 20, 25 or 50"},
      {[](Settings& s) { s.model.virtual_pipeline_model_parallel_size = 5; },
       "model.virtual_pipeline_model_parallel_size=5 does not divide the 12 layers of a pipeline rank (model.num_layers=96 / "
       "model.pipeline_model_parallel_size=8); use 1, 2, 3, 4, 6 or 12"},
      {[](Settings& s) { s.model.pipeline_schedule = PipelineSchedule::zero_bubble; },
       "model.pipeline_schedule=zb-h1 has one chunk a pipeline rank; use 1f1b, or "
       "model.virtual_pipeline_model_parallel_size=null"},
      {[](Settings& s) { s.model.num_layers_in_first_pipeline_stage = 6; },
       "model.num_layers_in_first_pipeline_stage=6 and model.num_layers_in_last_pipeline_stage=null leave 90 of "
       "model.num_layers=96 for 7 other pipeline ranks; use numbers that leave each the same"},
      {[](Settings& s) { s.model.num_layers_in_first_pipeline_stage = s.model.num_layers_in_last_pipeline_stage = 3; },
       "model.num_layers_in_first_pipeline_stage=3 and model.num_layers_in_last_pipeline_stage=3: "
       "model.virtual_pipeline_model_parallel_size=6 does not divide the 3 layers of a pipeline rank"},
      {[](Settings& s) {
         s.model.virtual_pipeline_model_parallel_size = 1, s.model.pipeline_model_parallel_size = 1;
         s.model.num_layers_in_last_pipeline_stage = 3;
       },
       "model.num_layers_in_first_pipeline_stage=null and model.num_layers_in_last_pipeline_stage=3 need "
       "model.pipeline_model_parallel_size above 1; use null"},
      {[](Settings& s) { s.model.global_batch_size = 32 * 12; },
       "model.global_batch_size=384 makes 12 micro-batches, and the interleaved pipeline needs a multiple of "
       "model.pipeline_model_parallel_size=8; use 256 or 512 samples"},
      {[](Settings& s) { s.model.context_parallel_size = 16, s.model.encoder_seq_length = 2000; },
       "model.encoder_seq_length=2000 is not a multiple of 2 * model.context_parallel_size=16; use 1984 or 2016 tokens"},
      {[](Settings& s) { s.model.context_parallel_size = 16, s.model.encoder_seq_length = 2016; },
       "model.encoder_seq_length=2016 is not a multiple of 8 * model.context_parallel_size=16, which attention_dropout needs; "
       "use "
       "1920 or 2048 tokens, or model.attention_dropout=0"},
      {[](Settings& s) { s.model.encoder_seq_length = 2046; },
       "model.sequence_parallel=true: model.tensor_model_parallel_size=4 does not divide the 2046 tokens of a rank; use 1, 2, 3, "
       "6, 11, 22, 31 or 33"},
      {[](Settings& s) {
         s.model.activations_checkpoint_granularity = RecomputeGranularity::full, s.model.activations_checkpoint_num_layers = 3;
       },
       "model.activations_checkpoint_num_layers=3: expected 1 to 2, the layers of a pipeline chunk"},
  };
  for (const Case& c : cases) {
    Settings settings = large();
    c.change(settings);
    EXPECT_EQ(user_error_of([&] { validate_both(settings); }), c.message);
  }
}

}  // namespace
}  // namespace trireme
