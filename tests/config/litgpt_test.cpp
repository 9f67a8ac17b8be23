// LitGPT's recipes and model names. The expected sizes are those that LitGPT's own configuration class gives.
#include "config/litgpt.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/recipe.h"
#include "config/recipe_files.h"
#include "config/user_error.h"

namespace trireme {
namespace {

class Litgpt : public testing::Test {
 protected:
  void SetUp() override { setenv("TRIREME_RECIPES", TRIREME_SOURCE_DIR "/recipes", 1); }
  void TearDown() override { unsetenv("TRIREME_RECIPES"); }
};

TEST_F(Litgpt, ModelNamesAreRecipes) {
  const struct {
    const char* name;
    int64_t layers, width, heads, groups, ffn, positions, vocabulary, padded;
    double rotary, base;
    bool parallel, bias;
  } cases[] = {
      {"pythia-70m-deduped", 6, 512, 8, 8, 2048, 2048, 50254, 50304, 0.25, 1e4, true, true},
      {"pythia-6.9b", 32, 4096, 32, 32, 16384, 2048, 50254, 50432, 0.25, 1e4, true, true},
      {"stablelm-tuned-alpha-7b", 16, 6144, 48, 48, 24576, 4096, 50254, 50432, 0.25, 1e4, true, true},
      {"RedPajama-INCITE-Instruct-7B-v0.1", 32, 4096, 32, 32, 16384, 2048, 50254, 50432, 1, 1e4, false, true},
      {"falcon-40b", 60, 8192, 128, 8, 32768, 2048, 65024, 65024, 1, 1e4, true, false},
      {"open_llama_3b", 26, 3200, 32, 32, 8640, 2048, 32000, 32000, 1, 1e4, false, false},
      {"Nous-Hermes-13b", 40, 5120, 40, 40, 13824, 2048, 32000, 32001, 1, 1e4, false, false},
      {"meta-llama/Llama-2-70b-hf", 80, 8192, 64, 8, 28672, 4096, 32000, 32000, 1, 1e4, false, false},
      {"CodeLlama-34b-Instruct-hf", 48, 8192, 64, 8, 22016, 16384, 32000, 32000, 1, 1e6, false, false},
      {"Platypus2-70B", 80, 8192, 64, 64, 28672, 4096, 32000, 32000, 1, 1e4, false, false},
      {"Mistral-7B-v0.1", 32, 4096, 32, 8, 14336, 4096, 32000, 32000, 1, 1e4, false, false},
      {"tiny-llama-1.1b", 22, 2048, 32, 4, 5632, 2048, 32000, 32000, 1, 1e4, false, false},
  };
  for (const auto& c : cases) {
    const ModelSettings model = resolve_recipe(c.name, {}).settings.model;
    EXPECT_EQ(model.num_layers, c.layers) << c.name;
    EXPECT_EQ(model.hidden_size, c.width) << c.name;
    EXPECT_EQ(model.num_attention_heads, c.heads) << c.name;
    EXPECT_EQ(model.groups(), c.groups) << c.name;
    EXPECT_EQ(model.ffn_hidden_size, c.ffn) << c.name;
    EXPECT_EQ(model.encoder_seq_length, c.positions) << c.name;
    EXPECT_EQ(model.vocab_size, c.vocabulary) << c.name;
    EXPECT_EQ(model.padded_vocabulary(), c.padded) << c.name;
    EXPECT_EQ(model.rotary_percentage, c.rotary) << c.name;
    EXPECT_EQ(model.rotary_base, c.base) << c.name;
    EXPECT_EQ(model.parallel_residual, c.parallel) << c.name;
    EXPECT_EQ(model.bias, c.bias) << c.name;
    EXPECT_FALSE(model.share_embeddings_and_output_weights) << c.name;
    EXPECT_EQ(model.normalization == Normalization::rmsnorm, model.activation == MlpActivation::swiglu) << c.name;
  }
}

// Every name either resolves or is answered with the block that is missing.
TEST_F(Litgpt, EveryNameResolvesOrSaysWhichBlockIsMissing) {
  const auto names = litgpt_names(TRIREME_SOURCE_DIR "/recipes/litgpt/_models.yaml");
  EXPECT_GE(names.size(), 81U);
  int64_t resolved = 0;
  for (const std::string& name : names) {
    const std::string error = user_error_of([&] { resolve_recipe(name, {}); });
    if (error.empty())
      ++resolved;
    else
      EXPECT_TRUE(error.starts_with(name + ": this model of LitGPT has ")) << error;
  }
  EXPECT_EQ(resolved, 81 - 1 + 9);  // of the registry all but 1; and of the later models those with the same blocks
  const auto error = [](const char* name) { return user_error_of([&] { resolve_recipe(name, {}); }); };
  EXPECT_TRUE(resolve_recipe("falcon-7b", {}).settings.model.shared_attention_norm);
  EXPECT_FALSE(resolve_recipe("falcon-40b", {}).settings.model.shared_attention_norm);
  EXPECT_NE(error("phi-1_5").find("a bias in the output layer"), std::string::npos);
  EXPECT_NE(error("Mixtral-8x7B-v0.1").find("mixture of experts (MoE)"), std::string::npos);
  EXPECT_NE(error("falcon-rw-1b").find("ALiBi"), std::string::npos);
  EXPECT_NE(error("Gemma-2-9b").find("sliding window attention"), std::string::npos);
  EXPECT_NE(error("pythia-70n").find("did you mean pythia-70m?"), std::string::npos);
}

// The ratio is what positions are divided by.
TEST_F(Litgpt, CondensedRope) {
  const std::pair<const char*, double> cases[] = {{"vicuna-7b-v1.5-16k", 4},
                                                  {"vicuna-13b-v1.5-16k", 4},
                                                  {"longchat-7b-16k", 8},
                                                  {"longchat-13b-16k", 8},
                                                  {"LLaMA-2-7B-32K", 8}};
  for (const auto& [name, ratio] : cases) {
    const ModelSettings model = resolve_recipe(name, {}).settings.model;
    EXPECT_EQ(model.rope_type(), RopeType::linear) << name;
    EXPECT_EQ(model.rope_factor(), ratio) << name;
  }
  EXPECT_EQ(resolve_recipe("vicuna-7b-v1.5", {}).settings.model.rope_type(), RopeType::plain);
}

constexpr const char* kPretrain = R"(
model_name: pythia-14m
model_config:
out_dir: out/pretrain/debug
precision: bf16-mixed
initial_checkpoint_dir:
resume: false
data: TinyStories
train:
  save_interval: 1000
  log_interval: 1
  global_batch_size: 125
  micro_batch_size: 5
  lr_warmup_steps: 100
  epochs:
  max_tokens: 100000000
  max_steps:
  max_seq_length:
  tie_embeddings:
  max_norm: 1.0
  min_lr: 6e-5
eval: {interval: 1000, max_new_tokens: , max_iters: 100, initial_validation: false, final_validation: false}
optimizer:
  class_path: torch.optim.AdamW
  init_args: {lr: 6e-4, weight_decay: 0.1, betas: [0.9, 0.95]}
devices: auto
num_nodes: 1
tokenizer_dir: checkpoints/EleutherAI/pythia-14m
logger_name: tensorboard
seed: 42
)";

TEST_F(Litgpt, PretrainingFilesAreRecipes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("debug.yaml", kPretrain);
  const ResolvedRecipe recipe = resolve_recipe(path, {});
  const Settings& s = recipe.settings;
  EXPECT_EQ(s.model.num_layers, 6);
  EXPECT_EQ(s.model.hidden_size, 128);
  EXPECT_EQ(s.model.encoder_seq_length, 512);
  EXPECT_EQ(s.trainer.max_steps, 100'000'000 / (125 * 512));
  EXPECT_EQ(s.model.global_batch_size, 125);
  EXPECT_EQ(s.model.micro_batch_size, 5);
  EXPECT_EQ(s.model.optim.lr, 6e-4);
  EXPECT_EQ(s.model.optim.beta2, 0.95);
  EXPECT_EQ(s.model.optim.sched.warmup_steps, 100);
  EXPECT_EQ(s.model.optim.sched.min_lr, 6e-5);
  EXPECT_EQ(s.trainer.gradient_clip_val, 1);
  EXPECT_EQ(s.trainer.val_check_interval, 1000);
  EXPECT_EQ(s.trainer.limit_val_batches, 4);  // 100 micro-batches of 5 in batches of 125
  EXPECT_EQ(s.trainer.precision, Precision::bf16);
  EXPECT_EQ(s.exp_manager.explicit_log_dir, "out/pretrain/debug");
  EXPECT_EQ(s.exp_manager.checkpoint.every_n_train_steps, 1000);
  EXPECT_EQ(s.model.seed, 42U);
  // Its data is LitGPT's own, so a run needs other data to be named.
  EXPECT_TRUE(user_error_of([&] { recipe.require_training(); }).starts_with("data=TinyStories: LitGPT fetches"));
  const ResolvedRecipe mock = resolve_recipe(path, {"model.data.data_impl=mock", "model.num_layers=2"});
  EXPECT_EQ(user_error_of([&] { mock.require_training(); }), "");
  EXPECT_EQ(mock.settings.model.num_layers, 2);
}

TEST_F(Litgpt, FilesWithAModelOfTheirOwn) {
  const TemporaryFolder folder;
  const std::string base =
      "train: {global_batch_size: 8, micro_batch_size: 4, max_tokens: 9700000, max_seq_length: 256, tie_embeddings: true}\n"
      "data: {class_path: litgpt.data.TextFiles, init_args: {train_data_path: texts}}\n";
  const std::string path = folder.write("stories.yaml", base + R"(
model_config: {name: stories15M, hf_config: {}, scale_embeddings: false, block_size: 256, padded_vocab_size: 32000, n_layer: 6,
  n_head: 6, n_query_groups: 6, n_embd: 288, head_size: 48, rotary_percentage: 1.0, parallel_residual: false, bias: false,
  norm_class_name: RMSNorm, mlp_class_name: LLaMAMLP, intermediate_size: 768}
)");
  const Settings s = resolve_recipe(path, {}).settings;
  EXPECT_EQ(s.model.hidden_size, 288);
  EXPECT_EQ(s.model.padded_vocabulary(), 32000);
  EXPECT_EQ(s.model.activation, MlpActivation::swiglu);
  EXPECT_TRUE(s.model.share_embeddings_and_output_weights);
  EXPECT_EQ(s.model.data.data_impl, DataImpl::text);
  EXPECT_EQ(s.model.data.data_prefix, std::vector<std::string>{"texts"});
  const auto error = [&](const std::string& config) {
    const std::string file = folder.write("wrong.yaml", base + config + "\n");
    return user_error_of([&] { resolve_recipe(file, {}); });
  };
  const auto scaling = [&](const std::string& adjustments) {
    const std::string file = folder.write("scaled.yaml", base + "model_config: {rope_adjustments: " + adjustments + "}\n");
    return resolve_recipe(file, {}).settings.model;
  };
  const ModelSettings llama3 = scaling("{factor: 32.0, low_freq_factor: 2.0, high_freq_factor: 5.0, original_max_seq_len: 4096}");
  EXPECT_EQ(llama3.rope_type(), RopeType::llama3);
  EXPECT_EQ(llama3.rope_factor(), 32);
  EXPECT_EQ(llama3.rope_scaling.low_freq_factor, 2);
  EXPECT_EQ(llama3.rope_scaling.high_freq_factor, 5);
  EXPECT_EQ(llama3.rope_scaling.original_max_position_embeddings, 4096);
  EXPECT_EQ(scaling("{factor: 3.0}").rope_type(), RopeType::linear);
  EXPECT_EQ(scaling("{factor: 3.0}").rope_factor(), 3);
  EXPECT_NE(error("model_config: {rope_adjustments: {factor: 3.0, low_freq_factor: 2.0}}").find("expected the map of factor, or"),
            std::string::npos);
  EXPECT_NE(error("model_config: {n_expert: 8}").find("mixture of experts (MoE)"), std::string::npos);
  EXPECT_TRUE(error("model_config: {n_layers: 8}").starts_with("model_config.n_layers: unknown key; did you mean n_layer?"));
  EXPECT_TRUE(
      error("model_name: pythia-15m").starts_with("model_name=pythia-15m: LitGPT has no such model; did you mean pythia-14m?"));
}

}  // namespace
}  // namespace trireme
