#include "convert/megatron/parameter_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace trireme {
namespace {

using Found = FoundParameter::Kind;

struct NameRow {
  std::string_view theirs, ours;
};

// The beginnings of names; "weight" or "bias" follows. Export writes the first row of each of ours, or with Transformer Engine
// for norms the one that ends with layer_norm_.
constexpr std::array kOfLayers = {
    NameRow{"input_layernorm.", "norm1."},
    NameRow{"self_attention.linear_qkv.layer_norm_", "norm1."},
    NameRow{"input_norm.", "norm1."},
    NameRow{"self_attention.linear_qkv.", "attention.qkv."},
    NameRow{"self_attention.query_key_value.", "attention.qkv."},
    NameRow{"attention.query_key_value.", "attention.qkv."},
    NameRow{"self_attention.linear_proj.", "attention.out."},
    NameRow{"self_attention.dense.", "attention.out."},
    NameRow{"attention.dense.", "attention.out."},
    NameRow{"pre_mlp_layernorm.", "norm2."},
    NameRow{"mlp.linear_fc1.layer_norm_", "norm2."},
    NameRow{"post_attention_layernorm.", "norm2."},
    NameRow{"post_attention_norm.", "norm2."},
    NameRow{"mlp.linear_fc1.", "mlp.up."},
    NameRow{"mlp.dense_h_to_4h.", "mlp.up."},
    NameRow{"mlp.linear_fc2.", "mlp.down."},
    NameRow{"mlp.dense_4h_to_h.", "mlp.down."},
};
constexpr std::string_view kGateUp = "mlp.dense_h_to_4h_2.";
constexpr std::array kFinalNorms = {std::string_view("final_layernorm."), std::string_view("final_norm.")};
constexpr std::array kStacks = {std::string_view("decoder."), std::string_view("encoder."), std::string_view("transformer.")};
constexpr std::array kWrappers = {std::string_view("model."), std::string_view("module."), std::string_view("language_model.")};

bool is_weight_or_bias(std::string_view rest) { return rest == "weight" || rest == "bias"; }

bool drop_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

std::optional<FoundParameter> find_in_layer(std::string_view name, int64_t layer) {
  if (drop_prefix(name, kGateUp) && is_weight_or_bias(name))
    return FoundParameter{Found::gate_up, "mlp.up." + std::string(name), true, layer};
  for (const NameRow& row : kOfLayers)
    if (name.starts_with(row.theirs) && is_weight_or_bias(name.substr(row.theirs.size())))
      return FoundParameter{Found::parameter, std::string(row.ours) + std::string(name.substr(row.theirs.size())), true, layer};
  return std::nullopt;
}

std::optional<FoundParameter> find_in_stack(std::string_view name) {
  for (const std::string_view norm : kFinalNorms)
    if (name.starts_with(norm) && is_weight_or_bias(name.substr(norm.size())))
      return FoundParameter{Found::parameter, "final_norm." + std::string(name.substr(norm.size())), false, kEveryLayer};
  if (!drop_prefix(name, "layers.")) return std::nullopt;
  int64_t layer = kEveryLayer;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error == std::errc() && end != name.data() + name.size() && *end == '.' && layer >= 0 && layer < (1 << 20))
    name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  else
    layer = kEveryLayer;
  return find_in_layer(name, layer);
}

}  // namespace

std::string FoundParameter::name(int64_t first_layer) const {
  if (!is_of_layer) return ours;
  return layer == kEveryLayer ? "blocks.*." + ours : fmt::format("blocks.{}.{}", first_layer + layer, ours);
}

std::optional<FoundParameter> find_parameter(std::string_view theirs) {
  if (theirs.find("_extra_state") != std::string_view::npos || theirs.ends_with("inv_freq"))
    return FoundParameter{Found::ignored, "", false, kEveryLayer};
  while (std::ranges::any_of(kWrappers, [&](std::string_view wrapper) { return drop_prefix(theirs, wrapper); })) {
  }
  if (theirs == "embedding.word_embeddings.weight") return FoundParameter{Found::parameter, "embedding.word", false, kEveryLayer};
  if (theirs == "embedding.position_embeddings.weight")
    return FoundParameter{Found::parameter, "embedding.position", false, kEveryLayer};
  if (theirs == "output_layer.weight") return FoundParameter{Found::parameter, "head.weight", false, kEveryLayer};
  if (theirs == "word_embeddings.weight" || theirs == "word_embeddings_for_head.weight")
    return FoundParameter{Found::tied_copy, "embedding.word", false, kEveryLayer};
  for (const std::string_view stack : kStacks)
    if (drop_prefix(theirs, stack)) return find_in_stack(theirs);
  return std::nullopt;
}

std::string megatron_name(std::string_view ours, int64_t layer, bool with_transformer_engine) {
  if (ours == "embedding.word") return "embedding.word_embeddings.weight";
  if (ours == "embedding.position") return "embedding.position_embeddings.weight";
  if (ours == "head.weight") return "output_layer.weight";
  if (ours.starts_with("final_norm.")) return "decoder.final_layernorm." + std::string(ours.substr(11));
  CHECK(drop_prefix(ours, "blocks."));
  ours.remove_prefix(ours.find('.') + 1);
  for (const NameRow& row : kOfLayers)
    if (ours.starts_with(row.ours) &&
        (!with_transformer_engine || !ours.starts_with("norm") || row.theirs.ends_with("layer_norm_")))
      return fmt::format("decoder.layers.{}.{}{}", layer, row.theirs, ours.substr(row.ours.size()));
  CHECK_NEVER("a parameter that Megatron does not have");
}

MegatronCut megatron_cut(std::string_view ours) {
  if (is_qkv(ours) || is_mlp_up(ours) || is_of_vocabulary(ours)) return MegatronCut::rows;
  return ours.ends_with("attention.out.weight") || ours.ends_with("mlp.down.weight") ? MegatronCut::columns : MegatronCut::whole;
}

bool is_qkv(std::string_view ours) { return ours.find("attention.qkv.") != std::string_view::npos; }
bool is_mlp_up(std::string_view ours) { return ours.find("mlp.up.") != std::string_view::npos; }
bool is_of_vocabulary(std::string_view ours) { return ours == "embedding.word" || ours == "head.weight"; }

}  // namespace trireme
