#include "convert/hf_family.h"

namespace trireme {
namespace {

using enum TensorLayout;
using enum Needs;

const std::vector<ConfigRow::Name> kGelus = {{"gelu_new", "gelu"},  {"gelu_pytorch_tanh", "gelu"},
                                             {"gelu_fast", "gelu"}, {"gelu_python_tanh", "gelu"},
                                             {"gelu", "gelu_erf"},  {"gelu_python", "gelu_erf"}};

HfFamily gpt2() {
  return {
      .name = "GPT-2",
      .model_type = "gpt2",
      .architecture = "GPT2LMHeadModel",
      .prefix = "transformer.",
      .heads = HeadKinds::plain,
      .rotary = {},
      .settings = {{"model.normalization", "layernorm", {"layernorm1p"}},
                   {"model.position_embedding_type", "learned_absolute", {"none"}},
                   {"model.bias", "true", {"false"}},
                   {"model.parallel_residual", "false"}},
      .config = {{"vocab_size", "model.vocab_size", 50257},
                 {"n_positions", "model.max_position_embeddings", 1024},
                 {"n_embd", "model.hidden_size", 768},
                 {"n_layer", "model.num_layers", 12},
                 {"n_head", "model.num_attention_heads", 12},
                 {"n_inner", "model.ffn_hidden_size", nullptr},
                 {"activation_function", "model.activation", "gelu_new", kGelus},
                 {"embd_pdrop", "model.hidden_dropout", 0.1},
                 {"resid_pdrop", "model.hidden_dropout", 0.1},  // import reads this one of the two
                 {"attn_pdrop", "model.attention_dropout", 0.1},
                 {"layer_norm_epsilon", "model.layernorm_epsilon", 1e-5},
                 {"initializer_range", "model.init_method_std", 0.02},
                 {"tie_word_embeddings", "model.share_embeddings_and_output_weights", true},
                 {"scale_attn_weights", nullptr, true},
                 {"scale_attn_by_inverse_layer_idx", nullptr, false},
                 {"add_cross_attention", nullptr, false}},
      .tensors = {{"embedding.word", "transformer.wte.weight"},
                  {"embedding.position", "transformer.wpe.weight"},
                  {"blocks.*.norm1.weight", "transformer.h.*.ln_1.weight"},
                  {"blocks.*.norm1.bias", "transformer.h.*.ln_1.bias"},
                  {"blocks.*.attention.qkv.weight", "transformer.h.*.attn.c_attn.weight", transposed},
                  {"blocks.*.attention.qkv.bias", "transformer.h.*.attn.c_attn.bias"},
                  {"blocks.*.attention.out.weight", "transformer.h.*.attn.c_proj.weight", transposed},
                  {"blocks.*.attention.out.bias", "transformer.h.*.attn.c_proj.bias"},
                  {"blocks.*.norm2.weight", "transformer.h.*.ln_2.weight"},
                  {"blocks.*.norm2.bias", "transformer.h.*.ln_2.bias"},
                  {"blocks.*.mlp.up.weight", "transformer.h.*.mlp.c_fc.weight", transposed},
                  {"blocks.*.mlp.up.bias", "transformer.h.*.mlp.c_fc.bias"},
                  {"blocks.*.mlp.down.weight", "transformer.h.*.mlp.c_proj.weight", transposed},
                  {"blocks.*.mlp.down.bias", "transformer.h.*.mlp.c_proj.bias"},
                  {"final_norm.weight", "transformer.ln_f.weight"},
                  {"final_norm.bias", "transformer.ln_f.bias"},
                  {"head.weight", "lm_head.weight", as_is, kAllSegments, untied_head}},
      .constants = {".attn.bias", ".attn.masked_bias"},
  };
}

HfFamily gpt_neox() {
  return {
      .name = "GPT-NeoX",
      .model_type = "gpt_neox",
      .architecture = "GPTNeoXForCausalLM",
      .prefix = "gpt_neox.",
      .heads = HeadKinds::plain,
      .rotary = {.base = "rotary_emb_base", .share = "rotary_pct"},
      .settings = {{"model.normalization", "layernorm", {"layernorm1p"}},
                   {"model.position_embedding_type", "rope"},
                   {"model.shared_attention_norm", "false"},
                   {"model.bias", "true", {"false"}}},
      .config = {{"vocab_size", "model.vocab_size", 50432},
                 {"max_position_embeddings", "model.max_position_embeddings", 2048},
                 {"hidden_size", "model.hidden_size", 6144},
                 {"num_hidden_layers", "model.num_layers", 44},
                 {"num_attention_heads", "model.num_attention_heads", 64},
                 {"intermediate_size", "model.ffn_hidden_size", 24576},
                 {"hidden_act", "model.activation", "gelu", kGelus},
                 {"hidden_dropout", "model.hidden_dropout", 0.0},
                 {"attention_dropout", "model.attention_dropout", 0.0},
                 {"layer_norm_eps", "model.layernorm_epsilon", 1e-5},
                 {"initializer_range", "model.init_method_std", 0.02},
                 {"use_parallel_residual", "model.parallel_residual", true},
                 {"tie_word_embeddings", "model.share_embeddings_and_output_weights", false}},
      .tensors = {{"embedding.word", "gpt_neox.embed_in.weight"},
                  {"blocks.*.norm1.weight", "gpt_neox.layers.*.input_layernorm.weight"},
                  {"blocks.*.norm1.bias", "gpt_neox.layers.*.input_layernorm.bias"},
                  {"blocks.*.attention.qkv.weight", "gpt_neox.layers.*.attention.query_key_value.weight", heads_interleaved},
                  {"blocks.*.attention.qkv.bias", "gpt_neox.layers.*.attention.query_key_value.bias", heads_interleaved,
                   kAllSegments, attention_bias},
                  {"blocks.*.attention.out.weight", "gpt_neox.layers.*.attention.dense.weight"},
                  {"blocks.*.attention.out.bias", "gpt_neox.layers.*.attention.dense.bias", as_is, kAllSegments, attention_bias},
                  {"blocks.*.norm2.weight", "gpt_neox.layers.*.post_attention_layernorm.weight"},
                  {"blocks.*.norm2.bias", "gpt_neox.layers.*.post_attention_layernorm.bias"},
                  {"blocks.*.mlp.up.weight", "gpt_neox.layers.*.mlp.dense_h_to_4h.weight"},
                  {"blocks.*.mlp.up.bias", "gpt_neox.layers.*.mlp.dense_h_to_4h.bias"},
                  {"blocks.*.mlp.down.weight", "gpt_neox.layers.*.mlp.dense_4h_to_h.weight"},
                  {"blocks.*.mlp.down.bias", "gpt_neox.layers.*.mlp.dense_4h_to_h.bias"},
                  {"final_norm.weight", "gpt_neox.final_layer_norm.weight"},
                  {"final_norm.bias", "gpt_neox.final_layer_norm.bias"},
                  {"head.weight", "embed_out.weight", as_is, kAllSegments, untied_head}},
      .constants = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
  };
}

HfFamily llama() {
  return {
      .name = "Llama",
      .model_type = "llama",
      .architecture = "LlamaForCausalLM",
      .prefix = "model.",
      .heads = HeadKinds::grouped,
      .rotary = {.base = "rope_theta"},
      .settings = {{"model.normalization", "rmsnorm"},
                   {"model.position_embedding_type", "rope"},
                   {"model.rotary_percentage", "1.0"},
                   {"model.parallel_residual", "false"}},
      .config =
          {{"vocab_size", "model.vocab_size", 32000},
           {"max_position_embeddings", "model.max_position_embeddings", 2048},
           {"hidden_size", "model.hidden_size", 4096},
           {"num_hidden_layers", "model.num_layers", 32},
           {"num_attention_heads", "model.num_attention_heads", 32},
           {"num_key_value_heads", "model.num_query_groups", nullptr},
           {"head_dim", "model.kv_channels", nullptr},
           {"intermediate_size", "model.ffn_hidden_size", 11008},
           {"hidden_act", "model.activation", "silu", {{"silu", "fast-swiglu"}, {"silu", "swiglu"}, {"swish", "fast-swiglu"}}},
           {"attention_dropout", "model.attention_dropout", 0.0},
           {"rms_norm_eps", "model.layernorm_epsilon", 1e-6},
           {"initializer_range", "model.init_method_std", 0.02},
           {"tie_word_embeddings", "model.share_embeddings_and_output_weights", false}},
      .tensors = {{"embedding.word", "model.embed_tokens.weight"},
                  {"blocks.*.norm1.weight", "model.layers.*.input_layernorm.weight"},
                  {"blocks.*.attention.qkv.weight", "model.layers.*.self_attn.q_proj.weight", as_is, 0},
                  {"blocks.*.attention.qkv.weight", "model.layers.*.self_attn.k_proj.weight", as_is, 1},
                  {"blocks.*.attention.qkv.weight", "model.layers.*.self_attn.v_proj.weight", as_is, 2},
                  {"blocks.*.attention.qkv.bias", "model.layers.*.self_attn.q_proj.bias", as_is, 0, attention_bias},
                  {"blocks.*.attention.qkv.bias", "model.layers.*.self_attn.k_proj.bias", as_is, 1, attention_bias},
                  {"blocks.*.attention.qkv.bias", "model.layers.*.self_attn.v_proj.bias", as_is, 2, attention_bias},
                  {"blocks.*.attention.out.weight", "model.layers.*.self_attn.o_proj.weight"},
                  {"blocks.*.attention.out.bias", "model.layers.*.self_attn.o_proj.bias", as_is, kAllSegments, attention_bias},
                  {"blocks.*.norm2.weight", "model.layers.*.post_attention_layernorm.weight"},
                  {"blocks.*.mlp.up.weight", "model.layers.*.mlp.gate_proj.weight", as_is, 0},
                  {"blocks.*.mlp.up.weight", "model.layers.*.mlp.up_proj.weight", as_is, 1},
                  {"blocks.*.mlp.up.bias", "model.layers.*.mlp.gate_proj.bias", as_is, 0, mlp_bias},
                  {"blocks.*.mlp.up.bias", "model.layers.*.mlp.up_proj.bias", as_is, 1, mlp_bias},
                  {"blocks.*.mlp.down.weight", "model.layers.*.mlp.down_proj.weight"},
                  {"blocks.*.mlp.down.bias", "model.layers.*.mlp.down_proj.bias", as_is, kAllSegments, mlp_bias},
                  {"final_norm.weight", "model.norm.weight"},
                  {"head.weight", "lm_head.weight", as_is, kAllSegments, untied_head}},
      .constants = {".rotary_emb.inv_freq"},
  };
}

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> families = {gpt2(), gpt_neox(), llama()};
  return families;
}

const HfFamily* find_family(const std::string& model_type) {
  for (const HfFamily& family : hf_families())
    if (model_type == family.model_type) return &family;
  return nullptr;
}

}  // namespace trireme
