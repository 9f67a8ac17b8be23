#include "convert/megatron/megatron_settings.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/utf8.h"
#include "config/interpolation.h"
#include "config/settings_printer.h"
#include "config/settings_reader.h"
#include "config/validate.h"
#include "config/yaml.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

// Arguments of Megatron with the meaning of a setting here.
struct ArgumentRow {
  const char *theirs, *ours;
};
constexpr std::array kArguments = {
    ArgumentRow{"num_layers", "model.num_layers"},
    ArgumentRow{"hidden_size", "model.hidden_size"},
    ArgumentRow{"ffn_hidden_size", "model.ffn_hidden_size"},
    ArgumentRow{"num_attention_heads", "model.num_attention_heads"},
    ArgumentRow{"kv_channels", "model.kv_channels"},
    ArgumentRow{"max_position_embeddings", "model.max_position_embeddings"},
    ArgumentRow{"seq_length", "model.encoder_seq_length"},
    ArgumentRow{"position_embedding_type", "model.position_embedding_type"},
    ArgumentRow{"rotary_percent", "model.rotary_percentage"},
    ArgumentRow{"rotary_base", "model.rotary_base"},
    ArgumentRow{"rotary_seq_len_interpolation_factor", "model.seq_len_interpolation_factor"},
    ArgumentRow{"use_rope_scaling", "model.scale_positional_embedding"},
    ArgumentRow{"layernorm_epsilon", "model.layernorm_epsilon"},  // before norm_epsilon
    ArgumentRow{"norm_epsilon", "model.layernorm_epsilon"},
    ArgumentRow{"attention_dropout", "model.attention_dropout"},
    ArgumentRow{"hidden_dropout", "model.hidden_dropout"},
    ArgumentRow{"init_method_std", "model.init_method_std"},
    ArgumentRow{"make_vocab_size_divisible_by", "model.make_vocab_size_divisible_by"},
    ArgumentRow{"micro_batch_size", "model.micro_batch_size"},
    ArgumentRow{"global_batch_size", "model.global_batch_size"},
    ArgumentRow{"seed", "model.seed"},
    ArgumentRow{"train_iters", "trainer.max_steps"},
    ArgumentRow{"clip_grad", "trainer.gradient_clip_val"},
    ArgumentRow{"lr", "model.optim.lr"},
    ArgumentRow{"min_lr", "model.optim.sched.min_lr"},
    ArgumentRow{"lr_warmup_iters", "model.optim.sched.warmup_steps"},
    ArgumentRow{"weight_decay", "model.optim.weight_decay"},
    ArgumentRow{"adam_eps", "model.optim.eps"},
};

// Arguments and keys that make another model when they are not off.
constexpr std::array kUnsupported = {
    "num_experts",
    "num_moe_experts",
    "multi_latent_attention",
    "qk_layernorm",
    "qk_l2_norm",
    "squared_relu",
    "quick_geglu",
    "rotary_interleaved",
    "apply_residual_connection_post_layernorm",
    "mtp_num_layers",
    "window_size",
    "heterogeneous_layers_config_path",
    "no_rope_freq",
    "headscale",
    "normalize_attention_scores_in_fp32",
    "retro_add_retriever",
    "is_hybrid_model",
    "hybrid_override_pattern",
    "fp32_residual_connection_post",
    "num_query_groups_per_layer",
    "apply_embedding_scaling",
    "moe_layer_recompute",
};

bool is_on(const Tree* value) {
  if (value == nullptr || value->is_null()) return false;
  const std::string text = value->text();
  return text != "false" && text != "0" && !text.empty() && text != "null" && !value->is_map() && !value->is_list();
}

Tree tree_of(const PickleValue& value) {
  constexpr size_t kLongestText = 4096;  // no setting is longer
  switch (value.kind) {
    case Kind::boolean:
      return Tree(value.integer != 0);
    case Kind::integer:
      return Tree(int64_t{value.integer});
    case Kind::real:
      return Tree(double{value.real});
    case Kind::text:
      return scalar_from_text(as_utf8(std::string(value.text.substr(0, kLongestText))));
    default:
      return {};
  }
}

Tree tree_of_arguments(const PickleValue& arguments, const std::string& where) {
  Tree tree{Tree::Map{}};
  const PickleValue::Items& items = arguments.dict()->items;
  constexpr size_t kMostArguments = 1 << 13;  // Megatron has 600
  if (items.size() / 2 > kMostArguments) throw Failure("{}: damaged: {} arguments", where, items.size() / 2);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string key(items[i]->text.substr(0, 100));
    const bool is_name = items[i]->is(Kind::text) && !key.empty() && key.size() < 100 && std::ranges::all_of(key, [](char c) {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                         });
    if (is_name) tree.set(key, tree_of(*items[i + 1]));
  }
  return tree;
}

// The model's keys of a configuration: model_config.yaml has them at its top, hparams.yaml under cfg, a recipe under model.
Tree model_of(Tree config, const std::string& where) {
  if (!config.is_map()) throw UserError("{}: an object of settings was expected", where);
  for (const char* key : {"cfg", "model"})
    if (const Tree* inner = config.find(key); inner != nullptr && inner->is_map()) return model_of(*inner, where);
  resolve_interpolations(config, {.may_dangle = [](const std::string&) { return true; }});
  return config;
}

class SettingsMaker {
 public:
  SettingsMaker(const MegatronDescription& from, int64_t vocabulary, Precision precision) : from_(from) {
    recipe_ = Tree{Tree::Map{}};
    for (const char* key : kUnsupported)
      if (const Tree* value = from.values.find(key); is_on(value))
        throw UserError("{}: {}={}: such models are not supported here", from.where, key, value->brief());
    if (from.is_nemo)
      add_config();
    else
      add_arguments();
    recipe_.set("model.vocab_size", Tree(vocabulary));
    recipe_.set("trainer.precision", Tree(std::string(precision == Precision::f32 ? "32" : "bf16")));
    // What a checkpoint does not say is set to continue with a trained model on any machine.
    if (!recipe_.find("model.optim.lr")) recipe_.set("model.optim.lr", Tree(1e-5));
    if (!recipe_.find("model.global_batch_size")) recipe_.set("model.global_batch_size", Tree(int64_t{8}));
  }

  MegatronModel make() {
    MegatronModel model{.settings = {}, .has_linear_bias = linear_bias_, .has_qkv_bias = qkv_bias_};
    try {
      model.settings = read_settings(recipe_).settings;
      validate(model.settings);
    } catch (const UserError& error) {
      throw UserError("{}: {}", from_.where, error.what());
    }
    return model;
  }

 private:
  const Tree* find(const char* key) const { return from_.values.find(key); }
  bool on(const char* key) const { return is_on(find(key)); }
  void set(const char* key, Tree value) { recipe_.set(key, std::move(value)); }
  std::string text(const char* key, const char* missing) const {
    const Tree* value = find(key);
    return value == nullptr || value->is_null() ? missing : value->text();
  }

  void add_arguments() {
    for (const char* key : {"num_layers", "hidden_size", "num_attention_heads"})
      if (find(key) == nullptr) throw UserError("{}: args has no {}; name a file of settings with --config", from_.where, key);
    for (const ArgumentRow& row : kArguments)
      if (const Tree* value = find(row.theirs); value != nullptr && !value->is_null()) set(row.ours, *value);
    if (on("group_query_attention") && on("num_query_groups")) set("model.num_query_groups", *find("num_query_groups"));
    if (on("use_rotary_position_embeddings")) set("model.position_embedding_type", Tree(std::string("rope")));
    if (on("use_rope_scaling") && on("rope_scaling_factor")) set("model.rope_scaling.factor", *find("rope_scaling_factor"));
    if (find("adam_beta1") != nullptr && find("adam_beta2") != nullptr)
      set("model.optim.betas", Tree(Tree::List{*find("adam_beta1"), *find("adam_beta2")}));
    const bool is_rms = text("normalization", "LayerNorm") == "RMSNorm", is_1p = on("apply_layernorm_1p");
    if (is_rms && is_1p)
      throw UserError("{}: normalization=RMSNorm with apply_layernorm_1p: such models are not supported here", from_.where);
    set("model.normalization", Tree(std::string(is_rms ? "rmsnorm" : is_1p ? "layernorm1p" : "layernorm")));
    // Before add_bias_linear, every model had biases.
    linear_bias_ = find("add_bias_linear") == nullptr ? !on("disable_bias_linear") : on("add_bias_linear");
    qkv_bias_ = linear_bias_ || on("add_qkv_bias");
    set("model.bias", Tree(qkv_bias_));
    set("model.share_embeddings_and_output_weights", Tree(!on("untie_embeddings_and_output_weights")));
    set_activation(on("bias_gelu_fusion") && linear_bias_, on("swiglu"));
    const std::string decay = text("lr_decay_style", "cosine");
    set("model.optim.sched.name", Tree(std::string(decay == "constant" ? "constant" : "CosineAnnealing")));
  }

  // Megatron's GELU is the tanh form where the bias is fused with it or where it is OpenAI's, and the exact one elsewhere.
  void set_activation(bool is_fused, bool is_gated) {
    const bool is_tanh = is_fused || on("openai_gelu");
    set("model.activation", Tree(std::string(is_gated ? "fast-swiglu" : is_tanh ? "gelu" : "gelu_erf")));
  }

  void add_config() {
    const Tree defaults = to_tree(Settings{});
    for (const Tree::Entry& entry : defaults.find("model")->map()) {
      // What is about the machine, the data, or a run is not the model's.
      constexpr std::array kLeftOut = {"tensor_model_parallel_size",
                                       "pipeline_model_parallel_size",
                                       "virtual_pipeline_model_parallel_size",
                                       "context_parallel_size",
                                       "sequence_parallel",
                                       "data",
                                       "tokenizer",
                                       "nsys_profile",
                                       "peft",
                                       "fsdp",
                                       "restore_from_path",
                                       "resume_from_checkpoint",
                                       "fp8",
                                       "ub_tp_comm_overlap",
                                       "rampup_batch_size",
                                       "num_layers_in_first_pipeline_stage",
                                       "num_layers_in_last_pipeline_stage",
                                       "optim",
                                       "activations_checkpoint_layers_per_pipeline",
                                       "num_micro_batches_with_partial_activation_checkpoints"};
      if (std::ranges::find(kLeftOut, entry.key) != kLeftOut.end()) continue;
      if (const Tree* value = from_.values.find(entry.key); value != nullptr && !value->is_null())
        recipe_.set("model." + entry.key, *value);
    }
    for (const char* key : {"lr", "weight_decay", "betas"})
      if (const Tree* value = from_.values.find(std::string("optim.") + key); value != nullptr && !value->is_null())
        recipe_.set(std::string("model.optim.") + key, *value);
    const bool is_gated = text("activation", "gelu").find("swiglu") != std::string::npos;
    linear_bias_ = find("bias") == nullptr || on("bias");
    qkv_bias_ = linear_bias_ || on("add_qkv_bias");
    set("model.bias", Tree(qkv_bias_));
    const Tree* fused = find("bias_activation_fusion");
    if (text("activation", "gelu") == "gelu" || is_gated)
      set_activation(linear_bias_ && (fused == nullptr || is_on(fused)), is_gated);
  }

  const MegatronDescription& from_;
  Tree recipe_;
  bool linear_bias_ = true, qkv_bias_ = true;
};

}  // namespace

MegatronDescription describe_megatron(const MegatronFiles& files, const std::string& config) {
  if (!config.empty()) return {model_of(read_yaml_file(config), config), true, config};
  if (files.arguments() != nullptr) return {tree_of_arguments(*files.arguments(), files.where()), false, files.where()};
  if (!files.config().empty())
    return {model_of(read_yaml(files.config(), files.config_name()), files.config_name()), true, files.config_name()};
  throw UserError(
      "{}: has neither Megatron's args nor a model_config.yaml or hparams.yaml, which say what model it is; name a YAML "
      "file of the model's settings with --config",
      files.where());
}

MegatronModel read_megatron_settings(const MegatronDescription& description, int64_t vocabulary, Precision precision) {
  return SettingsMaker(description, vocabulary, precision).make();
}

}  // namespace trireme
