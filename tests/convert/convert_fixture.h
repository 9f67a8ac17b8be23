// Checkpoints of made-up weights, and logits of models wherever they come from.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/philox.h"
#include "config/settings_printer.h"
#include "convert/hf_export.h"
#include "convert/hf_files.h"
#include "convert/hf_import.h"
#include "model/parameter_table.h"
#include "support/temporary_folder.h"
#include "train/loaded_model.h"
#include "train/run_folder.h"

namespace trireme {

inline const std::vector<int32_t> kTokens = {3, 41, 0, 7, 19, 19, 30, 2, 11, 44, 5, 28, 46};

// Small, in f32, of the GPT-2 kind; `change` makes other models of it.
inline Settings small_settings(const std::function<void(ModelSettings&)>& change = [](ModelSettings&) {}) {
  Settings settings;
  settings.trainer.precision = Precision::f32;
  ModelSettings& m = settings.model;
  m.num_layers = 2;
  m.hidden_size = 24;
  m.num_attention_heads = 3;
  m.ffn_hidden_size = 40;
  m.vocab_size = 53;
  m.make_vocab_size_divisible_by = 16;
  m.encoder_seq_length = m.max_position_embeddings = 20;
  change(m);
  return settings;
}

inline void as_neox(ModelSettings& m) {
  m.position_embedding_type = PositionEmbedding::rope;
  m.rotary_percentage = 0.25;
  m.activation = MlpActivation::gelu_erf;
  m.share_embeddings_and_output_weights = false;
  m.parallel_residual = true;
}

inline void as_llama(ModelSettings& m) {
  m.position_embedding_type = PositionEmbedding::rope;
  m.normalization = Normalization::rmsnorm;
  m.activation = MlpActivation::swiglu;
  m.num_attention_heads = 4;
  m.num_query_groups = 2;
  m.kv_channels = 8;
  m.bias = false;
  m.share_embeddings_and_output_weights = false;
}

// Saves a checkpoint of weights that are far larger than real ones, so that every nonlinearity is far from its linear part.
inline StoredCheckpoint make_checkpoint(const std::filesystem::path& folder, const Settings& settings,
                                        const std::function<void(const std::string&, std::vector<float>&)>& spoil = {}) {
  std::vector<CheckpointTensor> tensors;
  std::map<std::string, std::vector<float>> values;
  uint32_t site = 0;
  for (const ParameterRow& row : parameter_table(settings.model)) {
    std::vector<float>& of = values[row.name];
    const double middle = row.init == InitKind::ones ? 1 : 0, spread = row.shape.rank() == 2 ? 1.0 : 0.6;
    for (int64_t i = 0; i < row.count(); ++i)
      of.push_back(
          static_cast<float>(middle + spread * (uniform_open(philox(7, {static_cast<uint32_t>(i), 0, site, 0})[0]) - 0.5)));
    ++site;
    if (spoil) spoil(row.name, of);
    tensors.push_back({row.name, TensorSlice::whole(row.shape), Tensor{of.data(), DType::f32, row.shape, Device::host}});
  }
  CheckpointWriter writer(folder, tensors, {});
  writer.snapshot({.step = 5, .settings = to_yaml(settings), .state = {{"updates", 5}}});
  writer.wait();
  return open_checkpoint(folder / checkpoint_name(5));
}

// The logits after each token, [T,V], computed in f32.
inline std::vector<float> logits_of(const StoredCheckpoint& checkpoint, std::span<const int32_t> tokens,
                                    BackendKind backend = BackendKind::cpu) {
  Settings settings = settings_of(checkpoint);
  settings.trainer.precision = Precision::f32;
  settings.trainer.backend = backend;
  settings.trainer.threads = 1;
  LoadedModel model(checkpoint, settings, static_cast<int64_t>(tokens.size()) + 1);
  std::vector<float> all;
  for (const int32_t& token : tokens) {
    const auto logits = model.generator().feed(std::span(&token, 1));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// What two correct ways to compute logits may differ by when one of them is f32. Each product added to a sum rounds by up to
// 2^-24 of it, with a random sign, so n of them come to about sqrt(n) times that. Along a logit lie the sums of every layer and
// of the head; four times the estimate leaves room for errors that grow on their way through later layers.
inline double logit_tolerance(const ModelSettings& m, std::span<const double> logits) {
  const int64_t T = static_cast<int64_t>(kTokens.size()), D = m.head_width(), HD = m.num_attention_heads * D;
  const int64_t sums = m.num_layers * (2 * m.hidden_size + D + T + HD + m.ffn_hidden_size) + m.hidden_size;
  double largest = 0;
  for (const double logit : logits) largest = std::max(largest, std::abs(logit));
  return 4 * 0x1p-24 * std::sqrt(static_cast<double>(sums)) * largest;
}

inline void expect_logits(const ModelSettings& model, std::span<const float> ours, std::span<const double> expected) {
  ASSERT_EQ(ours.size(), expected.size());
  const double tolerance = logit_tolerance(model, expected);
  double worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - expected[i]));
  EXPECT_LE(worst, tolerance);
  EXPECT_GT(tolerance, 0);
}

// logits.safetensors of tests/convert/hf_peer.py.
struct PeerLogits {
  std::vector<int32_t> tokens;
  std::vector<double> logits;

  explicit PeerLogits(const std::filesystem::path& folder) {
    const File file = File::open(folder / "logits.safetensors");
    for (const SafetensorsTensor& tensor : read_safetensors_header(file).tensors) {
      const auto read = [&](auto& to) {
        to.resize(static_cast<size_t>(tensor.shape.count()));
        file.read_at(tensor.begin, std::as_writable_bytes(std::span(to)));
      };
      tensor.name == "tokens" ? read(tokens) : read(logits);
    }
  }
};

inline StoredCheckpoint import_model(const std::filesystem::path& model, const std::filesystem::path& run) {
  HfImport(model).write(run);
  return *open_named_checkpoint(run).checkpoint;
}

inline std::map<std::string, std::vector<float>> tensors_in(const std::filesystem::path& model) {
  std::map<std::string, std::vector<float>> tensors;
  const HfFiles files(model);
  for (const auto& [name, place] : files.tensors()) {
    tensors[name].resize(static_cast<size_t>(place.tensor.shape.count()));
    HfFiles::read(place, tensors[name]);
  }
  return tensors;
}

inline std::map<std::string, std::vector<float>> parameters_in(const StoredCheckpoint& checkpoint) {
  std::map<std::string, std::vector<float>> parameters;
  std::vector<CheckpointTensor> wanted;
  for (const ParameterRow& row : parameter_table(settings_of(checkpoint).model)) {
    std::vector<float>& values = parameters[row.name];
    values.resize(static_cast<size_t>(row.count()));
    wanted.push_back({row.name, TensorSlice::whole(row.shape), Tensor{values.data(), DType::f32, row.shape, Device::host}});
  }
  load_checkpoint(checkpoint, wanted);
  return parameters;
}

}  // namespace trireme
