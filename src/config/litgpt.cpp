#include "config/litgpt.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "config/suggestions.h"
#include "config/yaml.h"

namespace trireme {

namespace {

// Reads a LitGPT configuration over its defaults, key by key.
class LitgptConfig {
 public:
  LitgptConfig(std::string name, const Tree& config) : name_(std::move(name)), config_(config) {
    require_known_keys();
    require_blocks();
  }

  Tree model() const {
    const int64_t width = integer("n_embd", 4096), heads = integer("n_head", 32);
    const bool is_gated = text("mlp_class_name", "GptNeoxMLP") == "LLaMAMLP";
    const bool is_rms = text("norm_class_name", "LayerNorm") == "RMSNorm";
    const int64_t padded = integer("padded_vocab_size", 0);
    const int64_t vocabulary = integer("vocab_size", 50254);
    Tree model(Tree::Map{});
    const auto set = [&](const char* key, auto value) { model.set(key, Tree(value)); };
    set("encoder_seq_length", integer("block_size", 4096));
    set("max_position_embeddings", integer("block_size", 4096));
    set("num_layers", integer("n_layer", 16));
    set("hidden_size", width);
    set("ffn_hidden_size", integer("intermediate_size", 4 * width));
    set("num_attention_heads", heads);
    set("num_query_groups", integer("n_query_groups", heads));
    if (const int64_t head = integer("head_size", width / heads); head * heads != width) set("kv_channels", head);
    set("vocab_size", padded > 0 ? std::min(vocabulary, padded) : vocabulary);
    set("make_vocab_size_divisible_by", padded > 0 ? padded : integer("padding_multiple", 512));
    set("init_method_std", std::sqrt(2.0 / 5 / static_cast<double>(width)));
    set("use_scaled_init_method", false);
    set("hidden_dropout", 0.0);
    set("attention_dropout", 0.0);
    set("normalization", std::string(is_rms ? "rmsnorm" : "layernorm"));
    set("layernorm_epsilon", real("norm_eps", 1e-5));
    set("position_embedding_type", std::string("rope"));
    set("rotary_percentage", real("rotary_percentage", 0.25));
    set("rotary_base", real("rope_base", 10000));
    if (find("rope_condense_ratio") != nullptr) set("seq_len_interpolation_factor", real("rope_condense_ratio", 1));
    if (find("rope_adjustments") != nullptr) model.set("rope_scaling", rope_scaling());
    set("activation", std::string(is_gated ? "swiglu" : text("gelu_approximate", "none") == "tanh" ? "gelu" : "gelu_erf"));
    set("bias", boolean("bias", true));
    set("share_embeddings_and_output_weights", false);
    set("parallel_residual", boolean("parallel_residual", true));
    set("shared_attention_norm", boolean("shared_attention_norm", false));
    return model;
  }

 private:
  // rope_adjustments: with only the factor all frequencies are scaled; with the four keys of Llama 3.1 only the low ones.
  Tree rope_scaling() const {
    const bool is_linear = find("rope_adjustments.original_max_seq_len") == nullptr;
    Tree scaling(Tree::Map{});
    scaling.set("rope_type", Tree(std::string(is_linear ? "linear" : "llama3")));
    std::vector<std::pair<const char*, const char*>> keys = {{"rope_adjustments.factor", "factor"}};
    if (!is_linear)
      keys.insert(keys.end(), {{"rope_adjustments.low_freq_factor", "low_freq_factor"},
                               {"rope_adjustments.high_freq_factor", "high_freq_factor"},
                               {"rope_adjustments.original_max_seq_len", "original_max_position_embeddings"}});
    const Tree& adjustments = *find("rope_adjustments");
    if (!adjustments.is_map() || adjustments.map().size() != keys.size()) fail("rope_adjustments", kAdjustments);
    for (const auto& [from, to] : keys) {
      if (find(from) == nullptr) fail("rope_adjustments", kAdjustments);
      scaling.set(to, *find(from));
    }
    return scaling;
  }
  static constexpr const char* kAdjustments =
      "the map of factor, or of factor, low_freq_factor, high_freq_factor and original_max_seq_len";

  const Tree* find(const char* key) const {
    const Tree* value = config_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  [[noreturn]] void fail(const char* key, const char* expected) const {
    throw UserError("{}: {}={}: expected {}{}", name_, key, find(key)->brief(), expected, find(key)->where_suffix());
  }
  int64_t integer(const char* key, int64_t otherwise) const {
    if (find(key) == nullptr) return otherwise;
    if (find(key)->kind() != Tree::Kind::integer || find(key)->integer() < 1) fail(key, "an integer above 0");
    return find(key)->integer();
  }
  double real(const char* key, double otherwise) const {
    if (find(key) == nullptr) return otherwise;
    if (find(key)->kind() == Tree::Kind::integer) return static_cast<double>(find(key)->integer());
    if (find(key)->kind() != Tree::Kind::real) fail(key, "a number");
    return find(key)->real();
  }
  bool boolean(const char* key, bool otherwise) const {
    if (find(key) == nullptr) return otherwise;
    if (find(key)->kind() != Tree::Kind::boolean) fail(key, "true or false");
    return find(key)->boolean();
  }
  std::string text(const char* key, const char* otherwise) const { return find(key) == nullptr ? otherwise : find(key)->text(); }

  // An unsupported kind of block: the key that requests it, and the values that do not.
  struct Block {
    const char* key;
    std::vector<std::string> there;
    const char* what;
  };
  static const std::vector<Block>& blocks() {
    static const std::vector<Block> all = {
        {"alibi", {"false"}, "ALiBi"},
        {"n_expert", {"0"}, "mixture of experts (MoE)"},
        {"n_expert_per_token", {"0"}, "mixture of experts (MoE)"},
        {"sliding_window_size", {}, "sliding window attention"},
        {"sliding_window_layer_placing", {}, "sliding window attention"},
        {"lm_head_bias", {"false"}, "a bias in the output layer (lm_head_bias)"},
        {"scale_embeddings", {"false"}, "scaled embeddings (scale_embeddings)"},
        {"norm_qk", {"false"}, "norms of queries and keys (norm_qk)"},
        {"post_attention_norm", {"false"}, "a norm after attention (post_attention_norm)"},
        {"post_mlp_norm", {"false"}, "a norm after the MLP (post_mlp_norm)"},
        {"attention_logit_softcapping", {}, "soft-capped attention scores (attention_logit_softcapping)"},
        {"final_logit_softcapping", {}, "soft-capped logits (final_logit_softcapping)"},
        {"learned_position_embedding", {"false"}, "learned positions beside rope (learned_position_embedding)"},
        {"norm_class_name", {"LayerNorm", "RMSNorm"}, "another norm than LayerNorm and RMSNorm (norm_class_name)"},
        {"mlp_class_name", {"GptNeoxMLP", "LLaMAMLP"}, "another MLP than GptNeoxMLP and LLaMAMLP (mlp_class_name)"},
    };
    return all;
  }

  void require_blocks() const {
    std::vector<std::string> missing;
    for (const Block& block : blocks()) {
      const Tree* value = find(block.key);
      if (value == nullptr || std::ranges::find(block.there, value->text()) != block.there.end()) continue;
      if (std::ranges::find(missing, block.what) == missing.end()) missing.emplace_back(block.what);
    }
    if (!missing.empty())
      throw UserError("{}: this model of LitGPT has {}, and there is no such block here; trireme recipes lists models there are",
                      name_, fmt::join(missing, ", "));
  }

  void require_known_keys() const {
    std::vector<std::string> known = {"name",
                                      "hf_config",
                                      "block_size",
                                      "vocab_size",
                                      "padding_multiple",
                                      "padded_vocab_size",
                                      "n_layer",
                                      "n_head",
                                      "n_embd",
                                      "n_query_groups",
                                      "head_size",
                                      "rotary_percentage",
                                      "rope_base",
                                      "rope_condense_ratio",
                                      "rope_adjustments",
                                      "parallel_residual",
                                      "shared_attention_norm",
                                      "bias",
                                      "attn_bias",
                                      "norm_eps",
                                      "gelu_approximate",
                                      "intermediate_size"};
    for (const Block& block : blocks()) known.emplace_back(block.key);
    if (!config_.is_map()) throw UserError("{}: model_config={}: expected a map of keys", name_, config_.brief());
    for (const Tree::Entry& entry : config_.map())
      if (std::ranges::find(known, entry.key) == known.end())
        throw UserError("model_config.{}: unknown key{}{}", entry.key, did_you_mean(entry.key, known),
                        entry.value.where_suffix());
  }

  std::string name_;
  const Tree& config_;
};

// Moves settings from LitGPT's keys to this program's keys.
class Translation {
 public:
  Translation(Tree recipe, const std::string& models) : from_(std::move(recipe)), models_(models) {}

  Tree run() && {
    translate_model();
    translate_length();
    translate_optimizer();
    translate_data();
    move("train.save_interval", "exp_manager.checkpoint_callback_params.every_n_train_steps");
    move("train.log_interval", "trainer.log_every_n_steps");
    move("train.global_batch_size", "model.global_batch_size");
    move("train.micro_batch_size", "model.micro_batch_size");
    move("train.lr_warmup_steps", "model.optim.sched.warmup_steps");
    move("train.max_norm", "trainer.gradient_clip_val");
    move("train.min_lr", "model.optim.sched.min_lr");
    move("train.tie_embeddings", "model.share_embeddings_and_output_weights");
    move("eval.interval", "trainer.val_check_interval");
    move("precision", "trainer.precision");
    move("out_dir", "exp_manager.explicit_log_dir");
    move("initial_checkpoint_dir", "model.restore_from_path");
    move("num_nodes", "trainer.num_nodes");
    move("seed", "model.seed");
    if (const Tree devices = take("devices"); !devices.is_null() && devices.text() != "auto") to_.set("trainer.devices", devices);
    translate_resume();
    keep_the_rest();
    return std::move(to_);
  }

 private:
  Tree take(const char* key) {
    const Tree* value = from_.find(key);
    Tree taken = value == nullptr ? Tree{} : *value;
    from_.remove(key);
    return taken;
  }

  void move(const char* key, const char* to) {
    if (Tree value = take(key); !value.is_null()) to_.set(to, std::move(value));
  }

  void translate_model() {
    const Tree name = take("model_name"), config = take("model_config");
    if (config.is_map()) {
      to_.set("model", LitgptConfig(name.is_null() ? "model_config" : name.text(), config).model());
    } else if (auto model = litgpt_model(name.text(), models_)) {
      to_.set("model", std::move(*model));
    } else {
      throw UserError("model_name={}: LitGPT has no such model{}{}", name.brief(),
                      did_you_mean(name.text(), litgpt_names(models_)), name.where_suffix());
    }
    if (!name.is_null()) to_.set("exp_manager.name", name);
  }

  int64_t number(const Tree& value, const char* key) const {
    if (value.kind() == Tree::Kind::integer && value.integer() > 0) return value.integer();
    if (value.kind() == Tree::Kind::real && value.real() >= 1 && value.real() < 9e18) return static_cast<int64_t>(value.real());
    throw UserError("{}={}: expected an integer above 0{}", key, value.brief(), value.where_suffix());
  }

  // LitGPT counts tokens, but validation counts micro-batches.
  void translate_length() {
    if (const Tree longest = take("train.max_seq_length"); !longest.is_null()) {
      const int64_t length = std::min(number(longest, "train.max_seq_length"), to_.find("model.encoder_seq_length")->integer());
      to_.set("model.encoder_seq_length", Tree(length));
    }
    const Tree *batch = from_.find("train.global_batch_size"), *micro = from_.find("train.micro_batch_size");
    const int64_t samples = batch == nullptr ? 512 : number(*batch, "train.global_batch_size");
    const int64_t at_once = micro == nullptr ? 4 : number(*micro, "train.micro_batch_size");
    to_.set("model.global_batch_size", Tree(samples));
    to_.set("model.micro_batch_size", Tree(at_once));
    const Tree tokens = take("train.max_tokens"), steps = take("train.max_steps"), batches = take("eval.max_iters");
    std::optional<int64_t> most;
    if (!tokens.is_null())
      most =
          std::max<int64_t>(number(tokens, "train.max_tokens") / (samples * to_.find("model.encoder_seq_length")->integer()), 1);
    if (!steps.is_null()) most = std::min(most.value_or(number(steps, "train.max_steps")), number(steps, "train.max_steps"));
    if (!most) throw UserError("train.max_tokens or train.max_steps must be given: LitGPT's epochs depend on its own data");
    to_.set("trainer.max_steps", Tree(*most));
    if (!batches.is_null())
      to_.set("trainer.limit_val_batches", Tree(std::max<int64_t>(number(batches, "eval.max_iters") * at_once / samples, 1)));
  }

  void translate_optimizer() {
    const Tree* optimizer = from_.find("optimizer");
    if (optimizer == nullptr || optimizer->is_null()) return;
    const Tree* kind = optimizer->is_map() ? optimizer->find("class_path") : optimizer;
    if (kind != nullptr && kind->text() != "AdamW" && kind->text() != "torch.optim.AdamW")
      throw UserError("optimizer={}: only AdamW is there; use torch.optim.AdamW{}", kind->brief(), kind->where_suffix());
    move("optimizer.init_args.lr", "model.optim.lr");
    move("optimizer.init_args.weight_decay", "model.optim.weight_decay");
    move("optimizer.init_args.betas", "model.optim.betas");
    move("optimizer.init_args.eps", "model.optim.eps");
    from_.remove("optimizer.class_path");
    if (optimizer->is_string()) from_.remove("optimizer");
  }

  // Folders of text are read directly. Other modules of LitGPT download and prepare their data themselves; their name is kept, so
  // that a run can say what it needs.
  void translate_data() {
    const Tree *path = from_.find("data.init_args.train_data_path"), *kind = from_.find("data.class_path");
    if (path != nullptr && !path->is_null() && kind != nullptr && kind->text().ends_with("TextFiles")) {
      to_.set("model.data.data_impl", Tree(std::string("text")));
      to_.set("model.data.data_prefix", Tree(Tree::List{*path}));
      from_.remove("data");
    }
    if (const Tree folder = take("tokenizer_dir"); !folder.is_null()) {
      to_.set("model.tokenizer.library", Tree(std::string("huggingface")));
      to_.set("model.tokenizer.type", folder);
    }
  }

  void translate_resume() {
    const Tree resume = take("resume");
    const bool is_automatic = resume.text() == "auto";
    if (resume.is_string() && !is_automatic) return to_.set("exp_manager.resume_from_checkpoint", resume);
    if (!is_automatic && !(resume.kind() == Tree::Kind::boolean && resume.boolean())) return;
    to_.set("exp_manager.resume_if_exists", Tree(true));
    to_.set("exp_manager.resume_ignore_no_checkpoint", Tree(is_automatic));
  }

  // LitGPT's keys without a counterpart and unknown keys are left to the settings reader.
  void keep_the_rest() {
    for (Tree::Entry& entry : from_.map()) {
      if (entry.value.is_map()) std::erase_if(entry.value.map(), [](const Tree::Entry& one) { return is_empty(one.value); });
      if (!is_empty(entry.value)) to_.set(entry.key, std::move(entry.value));
    }
  }
  static bool is_empty(const Tree& value) { return value.is_null() || (value.is_map() && value.map().empty()); }

  Tree from_, to_ = Tree(Tree::Map{});
  const std::string& models_;
};

// Keys that a family of models has in common.
void add_family(const std::string& family, Tree& config) {
  if (family != "llama") return;
  Tree all(Tree::Map{});
  all.set("rotary_percentage", Tree(1.0));
  all.set("parallel_residual", Tree(false));
  all.set("bias", Tree(false));
  all.set("norm_class_name", Tree(std::string("RMSNorm")));
  all.set("mlp_class_name", Tree(std::string("LLaMAMLP")));
  all.merge(std::move(config));
  config = std::move(all);
}

Tree::List models_in(const std::string& models) {
  if (models.empty()) return {};
  const Tree file = read_yaml_file(models);
  const Tree* list = file.find("models");
  return list != nullptr && list->is_list() ? list->list() : Tree::List{};
}

}  // namespace

bool is_litgpt_recipe(const Tree& recipe) {
  const Tree* train = recipe.find("train");
  return train != nullptr && train->is_map() && recipe.find("trainer") == nullptr &&
         (recipe.find("model_name") != nullptr || recipe.find("model_config") != nullptr);
}

Tree from_litgpt(Tree recipe, const std::string& models) { return Translation(std::move(recipe), models).run(); }

std::optional<Tree> litgpt_model(const std::string& name, const std::string& models) {
  for (const Tree& model : models_in(models)) {
    const Tree* names = model.find("names");
    const auto is_name = [&](const Tree& one) { return one.text() == name; };
    if (names == nullptr || !names->is_list() || std::ranges::none_of(names->list(), is_name)) continue;
    Tree config = *model.find("config");
    const Tree* family = model.find("like");
    add_family(family == nullptr ? "" : family->text(), config);
    return LitgptConfig(name, config).model();
  }
  return std::nullopt;
}

std::vector<std::string> litgpt_names(const std::string& models) {
  std::vector<std::string> names;
  for (const Tree& model : models_in(models))
    if (const Tree* list = model.find("names"); list != nullptr && list->is_list())
      for (const Tree& name : list->list()) names.push_back(name.text());
  return names;
}

}  // namespace trireme
