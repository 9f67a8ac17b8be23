// The supported model families of transformers. A family is a table; export reads every row in one direction and import in the
// other.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/settings.h"

namespace trireme {

// A key of config.json and the equivalent recipe key.
struct ConfigRow {
  const char* theirs;
  const char* ours;       // nullptr: `absent` is the only supported value
  nlohmann::json absent;  // the value that transformers uses if the key is missing
  struct Name {
    const char *theirs, *ours;
  };
  // Values that the two sides spell differently. Of several names for one value, the first is written.
  std::vector<Name> names = {};
};

// A setting that identifies the family, and other values that the family can represent exactly: missing biases and positions
// become zeros, and a norm weight that is stored minus 1 gets the 1 added.
struct FamilySetting {
  const char* key;
  const char* value;
  std::vector<const char*> imitated = {};
};

// How the elements of one of our tensors [rows, width] are ordered in theirs.
enum class TensorLayout : uint8_t {
  as_is,
  transposed,         // [width, rows]: the Conv1D of GPT-2
  heads_interleaved,  // our rows: q, k, v of [heads, D] each; theirs: heads of [q, k, v] [D] each
};

// The feature that a model must have for a tensor to be in its files.
enum class Needs : uint8_t { nothing, attention_bias, mlp_bias, untied_head };

inline constexpr int kAllSegments = -1;

struct TensorRule {
  const char* ours;    // a name of the parameter table; * is the layer
  const char* theirs;  // * is the layer
  TensorLayout layout = TensorLayout::as_is;
  int segment = kAllSegments;  // the segment of our rows (q, k, v or gate, up) in their tensor
  Needs needs = Needs::nothing;
};

enum class HeadKinds : uint8_t { plain, grouped };  // plain: as many key heads as query heads, and heads * D = C

// The keys of rotary settings in files without rope_parameters; nullptr: no such key.
struct RotaryKeys {
  const char* base = nullptr;
  const char* share = nullptr;  // share of a head that is rotated; without this key, all of it
};

struct HfFamily {
  const char* name;          // "GPT-2"
  const char* model_type;    // "gpt2"
  const char* architecture;  // "GPT2LMHeadModel"
  const char* prefix;        // prefix of tensor names, absent if only the blocks were saved
  HeadKinds heads;
  RotaryKeys rotary;
  std::vector<FamilySetting> settings;
  std::vector<ConfigRow> config;
  std::vector<TensorRule> tensors;     // in output order; the tensors of a layer are together
  std::vector<const char*> constants;  // suffixes of names without parameters: masks, rotary frequencies
};

const std::vector<HfFamily>& hf_families();
const HfFamily* find_family(const std::string& model_type);  // nullptr if unknown

}  // namespace trireme
