// The files of tests/golden: a recipe in the metadata, and tensors by name.
#pragma once

#include <algorithm>

#include "base/file.h"
#include "config/overrides.h"
#include "config/settings_reader.h"
#include "support/engine_fixture.h"
#include "train/checkpoint/safetensors.h"

namespace trireme {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& name)
      : file_(File::open(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/" + name + ".safetensors")),
        header_(read_safetensors_header(file_)) {}

  template <class T>
  std::vector<T> read(const std::string& name) const {
    for (const SafetensorsTensor& tensor : header_.tensors) {
      if (tensor.name != name) continue;
      CHECK(tensor.dtype == kDTypeOf<T>);
      std::vector<T> values(static_cast<size_t>(tensor.shape.count()));
      file_.read_at(tensor.begin, std::as_writable_bytes(std::span(values)));
      return values;
    }
    throw Failure("no {} in the golden file", name);
  }

  Settings settings() const {
    Tree recipe{Tree::Map{}};
    for (const auto& [key, value] : header_.metadata) apply_override(recipe, parse_override("++" + key + "=" + value));
    return read_settings(recipe).settings;
  }

  Batch batch(const ModelSettings& model) const {
    Batch batch = make_batch(model.micro_batch_size, model.encoder_seq_length, model.vocab_size, 0);
    batch.tokens = read<int32_t>("tokens");
    batch.targets = read<int32_t>("targets");
    batch.unmasked_targets = std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
    return batch;
  }

  // An engine with the parameters of the file.
  void set_parameters(EngineFixture& engine) const {
    const FlatLayout& layout = engine->layout();
    for (size_t row = 0; row < layout.table.size(); ++row) {
      const auto values = read<float>("param." + layout.table[row].name);
      CHECK_EQ(std::ssize(values), layout.table[row].count());
      std::ranges::copy(values, engine.master(row).data());
    }
    engine->restore_updates(0);
  }

 private:
  File file_;
  SafetensorsHeader header_;
};

}  // namespace trireme
