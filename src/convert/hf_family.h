// The model families of transformers that are known here. A family is a table: every row is read in one direction by export and
// in the other by import.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/settings.h"

namespace trireme {

// A key of config.json and the recipe key that means the same.
struct ConfigRow {
  const char* theirs;
  const char* ours;       // nullptr: `absent` is the only value that we can take
  nlohmann::json absent;  // what transformers takes for a key that is missing
  struct Name {
    const char *theirs, *ours;
  };
  // Where the two spell values differently. Of several names for one value the first is written.
  std::vector<Name> names = {};
};

// A setting that makes a model one of the family, and values of it that a model of the family can imitate exactly: missing biases
// and positions are zeros, and a norm whose weight is stored less 1 gets the 1 added.
struct FamilySetting {
  const char* key;
  const char* value;
  std::vector<const char*> imitated = {};
};

// How the elements of one of our tensors [rows, width] lie in theirs.
enum class TensorLayout : uint8_t {
  as_is,
  transposed,         // [width, rows]: the Conv1D of GPT-2
  heads_interleaved,  // rows of ours: q, k, v of [heads, D] each; of theirs: heads of [q, k, v] [D] each
};

// What a model must have for a tensor to be in its files.
enum class Needs : uint8_t { nothing, attention_bias, mlp_bias, untied_head };

inline constexpr int kAllSegments = -1;

struct TensorRule {
  const char* ours;    // a name of the parameter table; * is the layer
  const char* theirs;  // * is the layer
  TensorLayout layout = TensorLayout::as_is;
  int segment = kAllSegments;  // of our rows (q, k, v or gate, up) that their tensor holds
  Needs needs = Needs::nothing;
};

enum class HeadKinds : uint8_t { plain, grouped };  // plain: as many key as query heads, together as wide as the model

// Where the angles of rotary positions stand in files that have no rope_parameters; nullptr: nowhere.
struct RotaryKeys {
  const char* base = nullptr;
  const char* share = nullptr;  // of a head that is turned; without this key it is all of it
};

struct HfFamily {
  const char* name;          // "GPT-2"
  const char* model_type;    // "gpt2"
  const char* architecture;  // "GPT2LMHeadModel"
  const char* prefix;        // what names begin with, except where only the stack of blocks was saved
  HeadKinds heads;
  RotaryKeys rotary;
  std::vector<FamilySetting> settings;
  std::vector<ConfigRow> config;
  std::vector<TensorRule> tensors;     // in the order in which they are written; those of a layer stand together
  std::vector<const char*> constants;  // endings of names that hold no parameters: masks, rotary frequencies
};

const std::vector<HfFamily>& hf_families();
const HfFamily* find_family(const std::string& model_type);  // nullptr if it is not known

}  // namespace trireme
