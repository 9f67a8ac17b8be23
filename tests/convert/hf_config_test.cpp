// config.json: what older and newer versions of transformers write, defaults, and what is refused.
#include "convert/hf_config.h"

#include <gtest/gtest.h>

#include "data/expect_user_error.h"

namespace trireme {
namespace {

ModelSettings read(const std::string& text) { return read_hf_config(text, "m/config.json").settings.model; }

TEST(HfConfig, MissingKeysMeanWhatTransformersMeans) {
  const ModelSettings gpt2 = read(R"({"model_type": "gpt2"})");  // the smallest published GPT-2
  EXPECT_EQ(gpt2.num_layers, 12);
  EXPECT_EQ(gpt2.hidden_size, 768);
  EXPECT_EQ(gpt2.ffn_hidden_size, 3072);
  EXPECT_EQ(gpt2.vocab_size, 50257);
  EXPECT_EQ(gpt2.encoder_seq_length, 1024);
  EXPECT_TRUE(gpt2.bias && gpt2.share_embeddings_and_output_weights && !gpt2.parallel_residual);
  EXPECT_EQ(gpt2.activation, MlpActivation::gelu);

  const ModelSettings llama = read(R"({"model_type": "llama", "num_attention_heads": 16})");
  EXPECT_EQ(llama.groups(), 16);
  EXPECT_EQ(llama.head_width(), 256);
  EXPECT_EQ(llama.layernorm_epsilon, 1e-6);
  EXPECT_EQ(llama.normalization, Normalization::rmsnorm);
  EXPECT_EQ(llama.activation, MlpActivation::swiglu);
  EXPECT_TRUE(!llama.bias && !llama.share_embeddings_and_output_weights);
  EXPECT_EQ(llama.hidden_dropout, 0);
}

TEST(HfConfig, RotaryPositionsOldAndNew) {
  const ModelSettings old =
      read(R"({"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 500, "rope_scaling": null})");
  EXPECT_EQ(old.rotary_percentage, 0.5);
  EXPECT_EQ(old.rotary_base, 500);
  const ModelSettings recent = read(
      R"({"model_type": "gpt_neox", "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}})");
  EXPECT_EQ(recent.rotary_percentage, 0.5);
  EXPECT_EQ(recent.rotary_base, 500);
  EXPECT_EQ(read(R"({"model_type": "gpt_neox"})").rotary_percentage, 0.25);
  EXPECT_EQ(read(R"({"model_type": "llama", "rope_theta": 500000.0})").rotary_base, 500000);
}

// Under the names of every release, and back: releases before 4.43 refuse a third key in rope_scaling.
TEST(HfConfig, LinearScaling) {
  for (const char* text : {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4}})",
                           R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 4.0}})",
                           R"({"model_type": "gpt_neox", "rope_parameters": {"rope_type": "linear", "factor": 4.0}})"}) {
    const ModelSettings model = read(text);
    EXPECT_EQ(model.rope_type(), RopeType::linear) << text;
    EXPECT_EQ(model.rope_factor(), 4) << text;
  }
  Settings nemo = read_hf_config(R"({"model_type": "llama"})", "c").settings;
  nemo.model.seq_len_interpolation_factor = 2.5;
  const auto written = write_hf_config(hf_model_of(nemo), {});
  EXPECT_EQ(written["rope_scaling"], nlohmann::ordered_json::parse(R"({"type": "linear", "factor": 2.5})"));
  EXPECT_EQ(written["rope_parameters"]["rope_type"], "linear");
  EXPECT_EQ(written["rope_parameters"]["factor"], 2.5);
  const ModelSettings again = read(written.dump());
  EXPECT_EQ(again.rope_type(), RopeType::linear);
  EXPECT_EQ(again.rope_factor(), 2.5);
}

// 0.29 * 100 falls just below 29, and transformers cuts it off.
TEST(HfConfig, TurnsAsManyDimensionsAsTransformers) {
  const HfModel model =
      read_hf_config(R"({"model_type": "gpt_neox", "rotary_pct": 0.29, "hidden_size": 200, "num_attention_heads": 2})", "c");
  EXPECT_EQ(model.settings.model.rotary_dims(), 28);
  HfModel ours = model;
  ours.settings.model.rotary_percentage = 0.29;
  EXPECT_EQ(ours.settings.model.rotary_dims(), 29);  // odd, but it shows the rule
  const double written = write_hf_config(ours, {})["rotary_pct"].get<double>();
  EXPECT_EQ(static_cast<int64_t>(100 * written), 29);
}

TEST(HfConfig, WritesWhatItReads) {
  for (const char* text :
       {R"({"model_type": "gpt2", "n_inner": 100, "activation_function": "gelu", "tie_word_embeddings": false})",
        R"({"model_type": "gpt_neox", "use_parallel_residual": false, "hidden_act": "gelu_new", "rotary_pct": 1.0})",
        R"({"model_type": "llama", "num_key_value_heads": 4, "head_dim": 64, "attention_bias": true, "mlp_bias": true})"}) {
    const HfModel first = read_hf_config(text, "first");
    const auto written = write_hf_config(first, {.dtype = "bfloat16", .end_token = 7});
    const HfModel second = read_hf_config(written.dump(), "second");
    EXPECT_EQ(write_hf_config(second, {.dtype = "bfloat16", .end_token = 7}), written);
    EXPECT_EQ(second.attention_bias, first.attention_bias);
    const auto given = nlohmann::json::parse(text);
    for (const auto& [key, value] : given.items()) EXPECT_EQ(nlohmann::json(written[key]), value) << key;
  }
}

TEST(HfConfig, RefusesInOneLine) {
  const auto refused = [](const std::string& text, std::vector<std::string> words) {
    words.emplace_back("m/config.json");
    expect_user_error([&] { read(text); }, words);
  };
  refused("", {"JSON"});
  refused("{\"model_type\": \"gpt2\"", {"JSON"});
  refused("[1, 2]", {"object"});
  refused(std::string(1000, '['), {"nested"});
  refused(R"({"model_type": "gpt2", "model_type": "llama"})", {"twice"});
  refused(R"({"hidden_size": 8})", {"model_type is missing", "gpt2, gpt_neox, llama"});
  refused(R"({"model_type": "mamba"})", {"model_type \"mamba\" is not known", "gpt2, gpt_neox, llama"});
  refused(R"({"model_type": 3})", {"model_type 3"});
  refused(R"({"model_type": "gpt2", "n_layer": "many"})", {"model.num_layers", "many"});
  refused(R"({"model_type": "gpt2", "n_layer": -1})", {"model.num_layers", "-1"});
  refused(R"({"model_type": "gpt2", "n_layer": 1e30})", {"model.num_layers"});
  refused(R"({"model_type": "gpt2", "n_layer": 18446744073709551615})", {"n_layer"});
  refused(R"({"model_type": "gpt2", "n_layer": [2]})", {"n_layer", "[2]"});
  refused(R"({"model_type": "gpt2", "n_embd": 1000000, "n_head": 10, "n_layer": 9999})", {"parameters"});
  refused(R"({"model_type": "gpt2", "n_head": 7})", {"num_attention_heads=7", "hidden_size=768"});
  refused(R"({"model_type": "gpt2", "activation_function": "relu"})", {"activation_function=\"relu\"", "gelu_new"});
  refused(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})",
          {"scale_attn_by_inverse_layer_idx=true", "false"});
  refused(R"({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2.0}})", {"rope_scaling.type=\"dynamic\""});
  refused(R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})", {"rope_scaling.factor is missing, which linear"});
  refused(R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 0.5}})", {"model.rope_scaling.factor=0.5"});
  refused(R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": [2]}})", {"rope_scaling.factor=[2]"});
  refused(R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5}})",
          {"rope_parameters.rope_type=\"yarn\"", "default", "linear", "llama3"});
  refused(R"({"model_type": "llama", "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}})",
          {"rope_parameters.factor is missing"});
  refused(R"({"model_type": "llama", "rope_parameters": {"full_attention": {"rope_type": "default"}}})", {"full_attention"});
  refused(R"({"model_type": "llama", "rope_parameters": 3})", {"rope_parameters=3"});
  refused(R"({"model_type": "llama", "rope_theta": "large"})", {"rope_theta=\"large\""});
  refused(R"({"model_type": "llama", "rope_parameters": {"partial_rotary_factor": 0.5}})",
          {"partial_rotary_factor=0.5", "Llama"});
  refused(R"({"model_type": "llama", "attention_bias": "yes"})", {"attention_bias=\"yes\""});
  refused(R"({"model_type": "llama", "quantization_config": {"bits": 4}})", {"quantization_config"});
}

}  // namespace
}  // namespace trireme
