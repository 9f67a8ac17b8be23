#include "convert/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "config/settings_printer.h"
#include "config/settings_reader.h"
#include "config/tree_json.h"
#include "config/validate.h"
#include "train/checkpoint/json.h"

namespace trireme {
namespace {

using nlohmann::json;

Tree tree_of(const json& value, const std::string& where) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return Tree(value.get<bool>());
  if (value.is_number_float()) return Tree(value.get<double>());
  if (value.is_string()) return Tree(value.get<std::string>());
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= std::numeric_limits<int64_t>::max();
  if (!value.is_number_integer() || !fits) throw UserError("{}={} is not a setting", where, json_excerpt(value));
  return Tree(value.get<int64_t>());
}

// Returns the settings with nulls replaced by their meaning, because the defaults of the two sides may differ.
Tree explicit_tree(const Settings& settings) {
  Settings worked_out = settings;
  worked_out.model.num_query_groups = settings.model.groups();
  worked_out.model.kv_channels = settings.model.head_width();
  worked_out.model.rope_scaling.factor = settings.model.rope_factor();
  return to_tree(worked_out);
}

std::string spellings(const ConfigRow& row, const char* ConfigRow::Name::*side) {
  std::vector<std::string> names;
  for (const ConfigRow::Name& name : row.names)
    if (std::ranges::find(names, name.*side) == names.end()) names.emplace_back(name.*side);
  return fmt::format("{}", fmt::join(names, ", "));
}

json to_theirs(const ConfigRow& row, const Tree& value) {
  if (row.names.empty()) return scalar_json(value);
  const auto name = std::ranges::find_if(row.names, [&](const ConfigRow::Name& n) { return value.text() == n.ours; });
  CHECK(name != row.names.end());  // checked by require_family
  return name->theirs;
}

Tree to_ours(const ConfigRow& row, const json& value, const std::string& where) {
  if (row.names.empty()) return tree_of(value, where);
  const auto name = std::ranges::find_if(row.names, [&](const ConfigRow::Name& n) { return value == n.theirs; });
  if (name == row.names.end())
    throw UserError("{}={} is not known here; known are {}", where, json_excerpt(value),
                    spellings(row, &ConfigRow::Name::theirs));
  return Tree(std::string(name->ours));
}

// transformers rotates int(head width * share) dimensions; we do too, but with a tolerance. If the two would differ, the share is
// moved to the middle between two dimensions.
double share_of_dims(double share, int64_t dims, int64_t head_width) {
  const auto width = static_cast<double>(head_width);
  const bool is_same_in_both = static_cast<int64_t>(width * share) == dims && static_cast<int64_t>(width * share + 1e-9) == dims;
  return is_same_in_both ? share : (static_cast<double>(dims) + 0.5) / width;
}

struct RotarySettings {
  double base = 10000, share = 1;
  Tree scaling;  // model.rope_scaling, or null
};

// Keys of rope_scaling and rope_parameters, equal to those of model.rope_scaling. Each type uses the first few of them.
constexpr std::array kScalingKeys = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};

struct ScalingType {
  const char* name;
  RopeType type;
  size_t keys;  // number of kScalingKeys used
};
constexpr std::array kScalingTypes = {ScalingType{"default", RopeType::plain, 0}, ScalingType{"linear", RopeType::linear, 1},
                                      ScalingType{"llama3", RopeType::llama3, kScalingKeys.size()}};

const ScalingType& scaling_type_of(const json& name, const std::string& where) {
  const auto found = std::ranges::find_if(kScalingTypes, [&](const ScalingType& type) { return name == type.name; });
  if (found != kScalingTypes.end()) return *found;
  throw UserError("{}={}: these scaled rotary positions are not supported; \"default\", \"linear\" and \"llama3\" are", where,
                  json_excerpt(name));
}

double positive_number(const json& value, const std::string& where) {
  if (!value.is_number() || value.get<double>() <= 0)
    throw UserError("{}={} is not a positive number", where, json_excerpt(value));
  return value.get<double>();
}

// Returns model.rope_scaling from rope_scaling or rope_parameters; null for plain rotary positions.
Tree read_rope_scaling(const json& object, const std::string& where) {
  ScalingType type = kScalingTypes[0];
  for (const char* key : {"type", "rope_type"})
    if (object.contains(key)) type = scaling_type_of(object[key], fmt::format("{}.{}", where, key));
  if (type.type == RopeType::plain) return {};
  Tree scaling(Tree::Map{});
  scaling.set("rope_type", Tree(std::string(type.name)));
  for (size_t i = 0; i < type.keys; ++i) {
    const char* key = kScalingKeys[i];
    if (!object.contains(key)) throw UserError("{}.{} is missing, which {} needs", where, key, type.name);
    positive_number(object[key], fmt::format("{}.{}", where, key));
    scaling.set(key, tree_of(object[key], fmt::format("{}.{}", where, key)));
  }
  return scaling;
}

// Reads rope_parameters. Older files have the base and the share under keys of the family, and rope_scaling for the rest.
RotarySettings read_rotary(const HfFamily& family, const json& config, const std::string& where) {
  RotarySettings rotary{.share = family.rotary.share != nullptr ? 0.25 : 1};
  const auto read = [&](const json& object, const char* key, const std::string& path, double& to) {
    if (key != nullptr && object.contains(key) && !object[key].is_null())
      to = positive_number(object[key], fmt::format("{}: {}{}", where, path, key));
  };
  read(config, family.rotary.base, "", rotary.base);
  read(config, family.rotary.share, "", rotary.share);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null()) continue;
    if (!found->is_object()) throw UserError("{}: {}={} is not an object", where, key, json_excerpt(*found));
    if (Tree scaling = read_rope_scaling(*found, fmt::format("{}: {}", where, key)); scaling.is_map())
      rotary.scaling = std::move(scaling);
    for (const auto& [name, value] : found->items())
      if (value.is_object())
        throw UserError("{}: {}.{}: rotary positions that differ by layer are not supported", where, key, name);
    read(*found, "rope_theta", std::string(key) + ".", rotary.base);
    read(*found, "partial_rotary_factor", std::string(key) + ".", rotary.share);
  }
  if (family.rotary.share == nullptr && rotary.share != 1)
    throw UserError("{}: partial_rotary_factor={}: {} models turn whole heads", where, rotary.share, family.name);
  return rotary;
}

// Adds to rope_parameters, and writes rope_scaling for transformers before 5. Before 4.43 transformers named the type "type",
// knew only linear, and rejected a third key.
void write_rope_scaling(RopeType asked, const Tree& settings, nlohmann::ordered_json& config) {
  const ScalingType& type = *std::ranges::find(kScalingTypes, asked, &ScalingType::type);
  if (type.keys == 0) return;
  nlohmann::ordered_json factors;
  for (size_t i = 0; i < type.keys; ++i)
    factors[kScalingKeys[i]] = scalar_json(*settings.find(std::string("model.rope_scaling.") + kScalingKeys[i]));
  config["rope_scaling"] = {{asked == RopeType::linear ? "type" : "rope_type", type.name}};
  config["rope_scaling"].update(factors);
  config["rope_parameters"]["rope_type"] = type.name;
  config["rope_parameters"].update(factors);
}

HasBias read_bias(const json& config, const char* key, HasBias absent, const std::string& where) {
  const auto found = config.find(key);
  if (found == config.end()) return absent;
  if (!found->is_boolean()) throw UserError("{}: {}={} is not true or false", where, key, json_excerpt(*found));
  return found->get<bool>() ? HasBias::yes : HasBias::no;
}

bool is_llama(const HfFamily& family) { return family.heads == HeadKinds::grouped; }

// Settings to continue training a pretrained model, with a batch size that fits any machine.
void set_training(Tree& recipe) {
  recipe.set("model.global_batch_size", Tree(int64_t{8}));
  recipe.set("model.optim.lr", Tree(1e-5));
  recipe.set("model.optim.sched.min_lr", Tree(1e-6));
}

const HfFamily& family_named(const json& config, const std::string& where) {
  if (!config.is_object()) throw UserError("{}: an object of settings was expected", where);
  const auto type = config.find("model_type");
  const HfFamily* family = type != config.end() && type->is_string() ? find_family(type->get<std::string>()) : nullptr;
  if (family != nullptr) return *family;
  std::vector<std::string> known;
  for (const HfFamily& each : hf_families()) known.emplace_back(each.model_type);
  throw UserError("{}: model_type {} is not known; known are {}", where,
                  type == config.end() ? "is missing, and a model without one" : json_excerpt(*type), fmt::join(known, ", "));
}

// UserError if a model of these settings neither belongs to the family nor can be represented by it.
void require_family(const HfFamily& family, const ModelSettings& model) {
  Settings settings;
  settings.model = model;
  const Tree tree = explicit_tree(settings);
  const auto fail = [&](const char* key, const std::string& expected) {
    throw UserError("{}={} cannot be exported: with these norms and positions the model would be {}, which has {}", key,
                    tree.find(key)->text(), family.name, expected);
  };
  for (const FamilySetting& setting : family.settings) {
    const std::string value = tree.find(setting.key)->text();
    if (value != setting.value && std::ranges::find(setting.imitated, value) == setting.imitated.end())
      fail(setting.key, setting.value);
  }
  for (const ConfigRow& row : family.config)
    if (!row.names.empty() &&
        std::ranges::none_of(row.names, [&](const ConfigRow::Name& name) { return tree.find(row.ours)->text() == name.ours; }))
      fail(row.ours, spellings(row, &ConfigRow::Name::ours));
  if (family.heads == HeadKinds::grouped) {
    // transformers rejects this, although the head width is a separate setting.
    if (model.hidden_size % model.num_attention_heads != 0)
      fail("model.num_attention_heads", fmt::format("a number of heads that divides model.hidden_size={}", model.hidden_size));
    return;
  }
  if (model.groups() != model.num_attention_heads)
    fail("model.num_query_groups", fmt::format("as many as model.num_attention_heads={}", model.num_attention_heads));
  if (model.head_width() * model.num_attention_heads != model.hidden_size)
    fail("model.kv_channels",
         fmt::format("model.hidden_size={} / model.num_attention_heads={}", model.hidden_size, model.num_attention_heads));
}

// Two settings distinguish the families; require_family reports any other mismatch.
const HfFamily& family_of(const ModelSettings& model) {
  const bool rms = model.normalization == Normalization::rmsnorm, rope = model.position_embedding_type == PositionEmbedding::rope;
  const HfFamily& family = *find_family(rms ? "llama" : rope ? "gpt_neox" : "gpt2");
  require_family(family, model);
  return family;
}

}  // namespace

HfModel hf_model_of(const Settings& settings) {
  HfModel model{.family = &family_of(settings.model), .settings = settings};
  if (is_llama(*model.family)) model.attention_bias = model.mlp_bias = settings.model.bias ? HasBias::yes : HasBias::no;
  return model;
}

nlohmann::ordered_json write_hf_config(const HfModel& model, const ConfigFacts& facts) {
  const HfFamily& family = *model.family;
  const Tree settings = explicit_tree(model.settings);
  nlohmann::ordered_json config = {{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  for (const ConfigRow& row : family.config)
    config[row.theirs] = row.ours == nullptr ? row.absent : to_theirs(row, *settings.find(row.ours));
  if (const RotaryKeys& keys = family.rotary; keys.base != nullptr) {
    const ModelSettings& m = model.settings.model;
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", m.rotary_base}};
    config[keys.base] = m.rotary_base;
    write_rope_scaling(m.rope_type(), settings, config);
    if (keys.share != nullptr)
      config["rope_parameters"]["partial_rotary_factor"] = config[keys.share] =
          share_of_dims(m.rotary_percentage, m.rotary_dims(), m.head_width());
  }
  if (family.rotary.base != nullptr) config["attention_bias"] = model.attention_bias == HasBias::yes;
  if (is_llama(family)) config["mlp_bias"] = model.mlp_bias == HasBias::yes;
  const json end = facts.end_token ? json(*facts.end_token) : json();
  config["bos_token_id"] = config["eos_token_id"] = end;
  config["torch_dtype"] = config["dtype"] = facts.dtype;
  return config;
}

HfModel read_hf_config(const std::string& text, const std::string& where) try {
  const json config = parse_strict_json(text, where);
  HfModel model{.family = &family_named(config, where), .settings = {}};
  const HfFamily& family = *model.family;
  if (const auto quantized = config.find("quantization_config"); quantized != config.end() && !quantized->is_null())
    throw UserError("{}: quantization_config: quantized weights are not supported; save the model as bf16 or fp32", where);

  Tree recipe{Tree::Map{}};
  for (const FamilySetting& setting : family.settings) recipe.set(setting.key, scalar_from_text(setting.value));
  for (const ConfigRow& row : family.config) {
    const json value = config.value(row.theirs, row.absent);
    const std::string key = fmt::format("{}: {}", where, row.theirs);
    if (row.ours != nullptr)
      recipe.set(row.ours, to_ours(row, value, key));
    else if (value != row.absent)
      throw UserError("{}={} is not supported; only {} is", key, json_excerpt(value), json_text(row.absent, kOneLine));
  }
  recipe.set("model.encoder_seq_length", *recipe.find("model.max_position_embeddings"));
  if (family.rotary.base != nullptr) {
    const RotarySettings rotary = read_rotary(family, config, where);
    if (rotary.scaling.is_map()) recipe.set("model.rope_scaling", rotary.scaling);
    recipe.set("model.rotary_base", Tree(rotary.base));
    recipe.set("model.rotary_percentage", Tree(rotary.share));
    model.attention_bias = read_bias(config, "attention_bias", is_llama(family) ? HasBias::no : HasBias::yes, where);
    if (is_llama(family)) model.mlp_bias = read_bias(config, "mlp_bias", HasBias::no, where);
    recipe.set("model.bias", Tree(model.attention_bias == HasBias::yes || model.mlp_bias == HasBias::yes));
  }
  if (!recipe.find("model.hidden_dropout")) recipe.set("model.hidden_dropout", Tree(0.0));
  set_training(recipe);
  try {
    model.settings = read_settings(recipe).settings;
    ModelSettings& m = model.settings.model;
    const auto dims = static_cast<int64_t>(static_cast<double>(m.head_width()) * m.rotary_percentage);
    m.rotary_percentage = share_of_dims(m.rotary_percentage, dims, m.head_width());
    validate(model.settings);
  } catch (const UserError& error) {
    throw UserError("{}: {}", where, error.what());
  }
  return model;
} catch (const Failure& failure) {  // the user can fix the file
  throw UserError("{}", failure.what());
}

}  // namespace trireme
