// The settings of a model from what its checkpoint says: Megatron's arguments, or NeMo's model_config.yaml.
#pragma once

#include <optional>
#include <string>

#include "config/settings.h"
#include "config/tree.h"
#include "convert/megatron/megatron_files.h"

namespace trireme {

struct MegatronModel {
  Settings settings;
  // Megatron may have biases for q, k and v alone. Ours has all or none, and a missing one is zeros.
  bool has_linear_bias = true, has_qkv_bias = true;
};

// The scalars of Megatron's arguments, or of a configuration of NeMo, as a tree. `config` names a YAML file to use in place of
// those of the checkpoint; empty: none. UserError if there are neither.
struct MegatronDescription {
  Tree values;
  bool is_nemo = false;
  std::string where;
};
MegatronDescription describe_megatron(const MegatronFiles& files, const std::string& config);

// `vocabulary` is that of the model, without its padding. UserError, naming the key, for a model that is not supported here.
MegatronModel read_megatron_settings(const MegatronDescription& description, int64_t vocabulary, Precision precision);

}  // namespace trireme
