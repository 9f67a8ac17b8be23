#include "config/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/recipe_files.h"
#include "config/settings_printer.h"
#include "config/user_error.h"

namespace trireme {
namespace {

constexpr const char* kSmall = "model: {vocab_size: 64, hidden_size: 32, num_attention_heads: 4, encoder_seq_length: 16}\n";

TEST_F(RecipeFiles, AreFoundByNameAndByPath) {
  const std::string path = write("small.yaml", kSmall);
  write("group/other.yaml", "# a recipe in a group\nmodel: {seed: 7}\n");
  EXPECT_EQ(load_recipe("small").find("model.hidden_size")->integer(), 32);
  EXPECT_EQ(load_recipe(path).find("model.hidden_size")->integer(), 32);
  EXPECT_EQ(load_recipe("group/other").find("model.seed")->integer(), 7);
  const auto recipes = shipped_recipes();
  const auto other = std::ranges::find(recipes, "group/other", &ShippedRecipe::name);
  ASSERT_NE(other, recipes.end());
  EXPECT_EQ(other->summary, "a recipe in a group");
}

TEST_F(RecipeFiles, ThatAreNotThereNameTheNearest) {
  write("small.yaml", kSmall);
  EXPECT_TRUE(user_error_of([] { load_recipe("smal"); }).ends_with("; did you mean small?"));
  write("group/big.yaml", kSmall);
  write("herd/big.yaml", kSmall);
  EXPECT_TRUE(user_error_of([] { load_recipe("big"); }).ends_with("; did you mean group/big or herd/big?"));
  EXPECT_TRUE(user_error_of([] { load_recipe("group"); }).ends_with("; trireme recipes group/ lists that group"));
  EXPECT_TRUE(user_error_of([] { load_recipe("nothing-like-any"); }).ends_with("; trireme recipes lists those there are"));
  const std::string absent = (folder_ / "absent.yaml").string();
  EXPECT_EQ(user_error_of([&] { load_recipe(absent); }), absent + ":1: cannot be opened: No such file or directory");
  EXPECT_EQ(user_error_of([&] { load_recipe(folder_.string()); }), folder_.string() + ":1: a folder, not a recipe file");
}

TEST_F(RecipeFiles, ExtendOthers) {
  write("base.yaml", "a: {x: 1, y: 2}\nb: base\n");
  write("extra.yaml", "a: {y: 3}\nb: extra\n");
  write("group/one.yaml", "extends: base\na: {z: 4}\n");
  write("group/two.yaml", "extends: [../base.yaml, extra, one]\nb: two\n");
  EXPECT_EQ(load_recipe("group/one").text(), "{a:{x:1,y:2,z:4},b:base}");
  EXPECT_EQ(load_recipe("group/two").text(), "{a:{x:1,y:2,z:4},b:two}");
}

TEST_F(RecipeFiles, ExtendsMistakes) {
  const std::string itself = write("itself.yaml", "extends: itself\n");
  write("ping.yaml", "extends: pong\n");
  const std::string pong = write("pong.yaml", "extends: ping\n");
  const std::string nothing = write("nothing.yaml", "a: 1\nextends: nowhere\n");
  const std::string number = write("number.yaml", "extends: [3]\n");
  const std::string list = write("list.yaml", "- a\n");
  EXPECT_NE(user_error_of([] { load_recipe("itself"); }).find(itself + ":1: is built on itself: "), std::string::npos);
  EXPECT_NE(user_error_of([] { load_recipe("ping"); }).find("pong.yaml -> "), std::string::npos);
  EXPECT_EQ(user_error_of([] { load_recipe("nothing"); }),
            nothing + ":2: extends=nowhere: no such recipe beside this file or among the shipped ones");
  EXPECT_EQ(user_error_of([] { load_recipe("number"); }),
            number + ":1: extends=3: expected the name of a recipe or a list of them");
  EXPECT_EQ(user_error_of([] { load_recipe("list"); }), list + ":1: a recipe must be a map of keys such as trainer: and model:");
  for (int i = 1; i < 10; ++i) write(fmt::format("d{}.yaml", i), fmt::format("extends: [d{0}, d{0}]\n", i + 1));
  write("d10.yaml", "a: 1\n");
  EXPECT_TRUE(user_error_of([] { load_recipe("d1"); }).ends_with(":1: a recipe may be built from at most 64 files"));
}

TEST_F(RecipeFiles, ResolveWithOverrides) {
  write("small.yaml", kSmall);
  const ResolvedRecipe recipe = resolve_recipe(
      "small", {"model.num_layers=3", "model.max_position_embeddings=${.encoder_seq_length}", "trainer.logger=false",
                "+model.bias=false", "++model.hidden_size=48", "~model.num_attention_heads", "model.optim.betas=[0.8,0.9]"});
  EXPECT_EQ(recipe.settings.model.num_layers, 3);
  EXPECT_EQ(recipe.settings.model.max_position_embeddings, 16);
  EXPECT_EQ(recipe.settings.model.hidden_size, 48);
  EXPECT_EQ(recipe.settings.model.num_attention_heads, 12);
  EXPECT_EQ(recipe.settings.model.optim.beta1, 0.8);
  EXPECT_FALSE(recipe.settings.model.bias);
  EXPECT_EQ(names_of(recipe.ignored_keys), std::vector<std::string>{"trainer.logger"});
  EXPECT_EQ(recipe.tree.find("model.max_position_embeddings")->integer(), 16);
}

// A wrong value is answered at its own key, not at one that is computed from it.
TEST_F(RecipeFiles, WrongValuesAreBlamedOnTheirOwnKey) {
  write("small.yaml",
        "model:\n  vocab_size: 64\n  kv_channels: ${.num_query_groups}\n  ffn_hidden_size: ${multiply:4, ${.hidden_size}}\n"
        "  num_query_groups: 4\n  hidden_size: 32\n  num_attention_heads: 4\n");
  EXPECT_TRUE(user_error_of([] { resolve_recipe("small", {"model.hidden_size=abc"}); }).starts_with("model.hidden_size=abc: "));
  EXPECT_TRUE(
      user_error_of([] { resolve_recipe("small", {"model.num_query_groups=x"}); }).starts_with("model.num_query_groups=x: "));
}

TEST_F(RecipeFiles, KeysOfOlderReleasesKeepTheirMeaning) {
  write("small.yaml", kSmall);
  write("old.yaml", "extends: small\ntrainer: {gpus: 4}\nmodel: {global_batch_size: \"${multiply:2, ${trainer.gpus}}\"}\n");
  EXPECT_EQ(resolve_recipe("old", {}).settings.trainer.devices, 4);
  EXPECT_EQ(resolve_recipe("old", {}).settings.model.global_batch_size, 8);
  EXPECT_EQ(resolve_recipe("old", {"trainer.gpus=2"}).settings.trainer.devices, 2);
  write("both.yaml", "extends: small\ntrainer: {gpus: 4, devices: 2}\n");
  EXPECT_TRUE(user_error_of([] { resolve_recipe("both", {}); }).starts_with("trainer.gpus=4 contradicts trainer.devices=2"));
}

TEST_F(RecipeFiles, ResolveMistakes) {
  const std::string path = write("small.yaml", kSmall);
  write("open.yaml", "extends: small\nmodel:\n  seed: ???\n");
  const auto error = [](const std::string& name, const std::string& text) {
    return user_error_of([&] { resolve_recipe(name, text.empty() ? std::vector<std::string>{} : std::vector{text}); });
  };
  EXPECT_EQ(error("small", "model.num_layer=3"), "model.num_layer: unknown key; did you mean model.num_layers?");
  EXPECT_EQ(error("small", "+model.num_layer=3"), "model.num_layer: unknown key; did you mean model.num_layers?");
  EXPECT_EQ(error("small", "model.num_layers=x"), "model.num_layers=x: expected an integer from 1 to 10000");
  EXPECT_EQ(
      error("small", "model.num_attention_heads=3"),
      "model.num_attention_heads=3 does not divide model.hidden_size=32; use 1, 2, 4, 8, 16 or 32, or set model.kv_channels");
  EXPECT_EQ(error("small", "model.seed=${model.sed}"), "model.seed=${model.sed}: the recipe has no model.sed");
  EXPECT_EQ(error("open", ""), fmt::format("model.seed must be given: an integer from 0 to 9223372036854775807 ({}:3)",
                                           (folder_ / "open.yaml").string()));
  EXPECT_EQ(error("open", "model.seed=3"), "");
}

// The keys of a NeMo Megatron GPT recipe.
TEST_F(RecipeFiles, ANemoRecipeIsARecipe) {
  const std::string path = write("nemo.yaml", R"(
name: megatron_gpt
restore_from_path: null
trainer: {devices: 1, num_nodes: 1, accelerator: gpu, precision: bf16, logger: False, enable_checkpointing: False,
  use_distributed_sampler: False, max_epochs: -1, max_steps: 100000, log_every_n_steps: 10, val_check_interval: 100,
  limit_val_batches: 50, limit_test_batches: 500, accumulate_grad_batches: 1, gradient_clip_val: 1.0, benchmark: False}
exp_manager:
  explicit_log_dir: null
  exp_dir: null
  name: megatron_gpt
  create_wandb_logger: False
  wandb_logger_kwargs: {project: null, name: null}
  resume_if_exists: True
  resume_ignore_no_checkpoint: True
  create_checkpoint_callback: True
  checkpoint_callback_params:
    {monitor: val_loss, save_top_k: 10, mode: min, always_save_nemo: False, save_nemo_on_train_end: False,
     filename: 'megatron_gpt--{val_loss:.2f}-{step}-{consumed_samples}',
     model_parallel_size: '${multiply:${model.tensor_model_parallel_size}, ${model.pipeline_model_parallel_size}}'}
  log_step_timing: True
  step_timing_kwargs: {sync_cuda: True, buffer_size: 5}
model:
  mcore_gpt: True
  micro_batch_size: 4
  global_batch_size: 8
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  encoder_seq_length: 512
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 12
  hidden_size: 768
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 12
  init_method_std: 0.02
  use_scaled_init_method: True
  hidden_dropout: 0.1
  attention_dropout: 0.1
  ffn_dropout: 0.0
  kv_channels: null
  apply_query_key_layer_scaling: False
  normalization: 'layernorm'
  layernorm_epsilon: 1e-5
  do_layer_norm_weight_decay: False
  make_vocab_size_divisible_by: 128
  pre_process: True
  post_process: True
  persist_layer_norm: True
  bias: True
  activation: 'gelu'
  headscale: False
  transformer_block_type: 'pre_ln'
  openai_gelu: False
  normalize_attention_scores: True
  position_embedding_type: 'learned_absolute'
  rotary_percentage: 1.0
  attention_type: 'multihead'
  share_embeddings_and_output_weights: True
  overlap_p2p_comm: False
  batch_p2p_comm: True
  seq_len_interpolation_factor: null
  num_query_groups: null
  tokenizer: {library: 'megatron', type: 'GPT2BPETokenizer', model: null, vocab_file: null, merge_file: null, delimiter: null}
  native_amp_init_scale: 4294967296
  native_amp_growth_interval: 1000
  hysteresis: 2
  fp32_residual_connection: False
  fp16_lm_cross_entropy: False
  megatron_amp_O2: False
  grad_allreduce_chunk_size_mb: 125
  grad_div_ar_fusion: True
  gradient_accumulation_fusion: False
  bias_activation_fusion: True
  bias_dropout_add_fusion: True
  masked_softmax_fusion: True
  get_attention_mask_from_fusion: True
  apply_rope_fusion: False
  seed: 1234
  resume_from_checkpoint: null
  use_cpu_initialization: False
  onnx_safe: False
  apex_transformer_log_level: 30
  gradient_as_bucket_view: True
  sync_batch_comm: False
  activations_checkpoint_granularity: null
  activations_checkpoint_method: null
  activations_checkpoint_num_layers: null
  num_micro_batches_with_partial_activation_checkpoints: null
  activations_checkpoint_layers_per_pipeline: null
  sequence_parallel: False
  transformer_engine: True
  fp8: False
  fp8_e4m3: False
  fp8_hybrid: True
  fp8_margin: 0
  fp8_interval: 1
  fp8_amax_history_len: 1024
  fp8_amax_compute_algo: max
  reduce_amax: True
  use_emha: False
  fsdp: False
  fsdp_sharding_strategy: 'full'
  fsdp_grad_reduce_dtype: 'fp32'
  fsdp_sharded_checkpoint: False
  nsys_profile: {enabled: False, start_step: 10, end_step: 10, ranks: [0], gen_shape: False}
  optim:
    {name: fused_adam, lr: 2e-4, weight_decay: 0.01, betas: [0.9, 0.98],
     sched: {name: CosineAnnealing, warmup_steps: 500, constant_steps: 0, min_lr: 2e-5}}
  data:
    {data_prefix: '???', index_mapping_dir: null, data_impl: mmap, splits_string: '900,50,50', seq_length: '${model.encoder_seq_length}',
     skip_warmup: True, num_workers: 2, dataloader_type: single, reset_position_ids: False, reset_attention_mask: False,
     eod_mask_loss: False, validation_drop_last: True, no_seqlen_plus_one_input_tokens: False,
     pad_samples_to_global_batch_size: False, shuffle_documents: True, exchange_indices_distributed: False}
)");
  EXPECT_TRUE(user_error_of([&] { resolve_recipe(path, {}); }).starts_with("model.data.data_prefix must be given"));
  const ResolvedRecipe recipe =
      resolve_recipe(path, {"model.data.data_prefix=[.5,/data/a,.5,/data/b]", "trainer.max_steps=10", "model.vocab_size=50257"});
  EXPECT_TRUE(resolve_recipe(path, {"model.data.data_impl=mock"}).settings.model.data.data_prefix.empty());
  EXPECT_EQ(recipe.settings.trainer.max_steps, 10);
  EXPECT_EQ(recipe.settings.model.vocab_size, 50257);
  EXPECT_EQ(recipe.settings.model.max_position_embeddings, 512);
  EXPECT_EQ(recipe.settings.model.optim.beta2, 0.98);
}

class ShippedRecipes : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }
};

// The launcher's part of a recipe, run:, is the only one that a training run has no use for.
TEST_F(ShippedRecipes, HaveNoKeysWithoutEffect) {
  for (const ShippedRecipe& recipe : shipped_recipes())
    for (const std::string& key : names_of(resolve_recipe(recipe.name, {}).ignored_keys))
      EXPECT_EQ(key, "run.time_limit") << recipe.name;
}

TEST_F(ShippedRecipes, ThatOnlyServeOthersAreNotListed) {
  for (const ShippedRecipe& recipe : shipped_recipes())
    EXPECT_FALSE(std::filesystem::path(recipe.name).filename().string().starts_with('_'));
  EXPECT_TRUE(user_error_of([] { resolve_recipe("gpt3/_base", {}); }).find("must be given") != std::string::npos);
  EXPECT_FALSE(shipped_summary("gpt3/_base").empty());
  EXPECT_EQ(shipped_summary("gpt3/nothing"), "");
}

TEST_F(ShippedRecipes, HaveThePublishedValues) {
  const ModelSettings small = resolve_recipe("gpt3/126m", {}).settings.model;
  EXPECT_EQ(small.ffn_hidden_size, 3072);
  EXPECT_EQ(small.head_width(), 64);
  EXPECT_EQ(small.padded_vocabulary(), 50304);
  EXPECT_EQ(small.init_method_std, 0.023);
  EXPECT_EQ(small.hidden_dropout, 0.2);
  EXPECT_EQ(small.optim.sched.constant_steps, 100000);

  const ModelSettings improved = resolve_recipe("gpt3/400m_improved", {}).settings.model;
  EXPECT_EQ(improved.ffn_hidden_size, 2688);
  EXPECT_EQ(improved.rotary_dims(), 32);
  EXPECT_EQ(improved.normalization, Normalization::layernorm1p);
  EXPECT_EQ(improved.activation, MlpActivation::swiglu);
  EXPECT_FALSE(improved.bias);
  EXPECT_FALSE(improved.share_embeddings_and_output_weights);

  const ModelSettings pythia = resolve_recipe("pythia/70m", {}).settings.model;
  EXPECT_EQ(pythia.padded_vocabulary(), 50304);
  EXPECT_EQ(pythia.rotary_dims(), 16);
  EXPECT_TRUE(pythia.parallel_residual);

  const ModelSettings demo = resolve_recipe("demo", {}).settings.model;
  EXPECT_EQ(demo.padded_vocabulary(), 320);
  EXPECT_EQ(demo.max_position_embeddings, demo.encoder_seq_length);
}

}  // namespace
}  // namespace trireme
