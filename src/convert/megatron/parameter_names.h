// The names of Megatron's parameters and ours. Megatron Core, Megatron-LM before it, and NeMo each have names of their own; one
// table is read in both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr int64_t kEveryLayer = -1;  // of a tensor whose first dimension is the layer

struct FoundParameter {
  enum class Kind : uint8_t {
    parameter,
    tied_copy,  // the embedding again, as the last stage of a pipeline has it
    ignored,    // no parameter: states of Transformer Engine, rotary frequencies
    gate_up,    // NeMo's second half of mlp.up
  };
  Kind kind = Kind::parameter;
  std::string ours;  // "attention.qkv.weight" of a layer; else a whole name, "final_norm.bias"
  bool is_of_layer = false;
  int64_t layer = kEveryLayer;

  // "blocks.3.attention.qkv.weight"; `first_layer` is the number of the layer that theirs calls 0.
  std::string name(int64_t first_layer = 0) const;
};

// No value: a name that a GPT model of these programs does not have.
std::optional<FoundParameter> find_parameter(std::string_view theirs);

// The name in Megatron Core of a parameter of ours, whose layer has the number `layer` there. With Transformer Engine a norm is
// part of the linear layer after it.
std::string megatron_name(std::string_view ours, int64_t layer, bool with_transformer_engine);

// How tensor parallelism cuts a parameter, by its name here.
enum class MegatronCut : uint8_t { whole, rows, columns };
MegatronCut megatron_cut(std::string_view ours);

bool is_qkv(std::string_view ours);
bool is_mlp_up(std::string_view ours);
bool is_of_vocabulary(std::string_view ours);

}  // namespace trireme
