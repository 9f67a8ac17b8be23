// A model for generation in memory of its own: parameters from a checkpoint, a cache for `capacity` tokens.
#pragma once

#include <memory>
#include <optional>

#include "model/generator.h"
#include "train/checkpoint/checkpoint.h"

namespace trireme {

class LoadedModel {
 public:
  // `settings` are those of the checkpoint; what computes, and in which precision, may differ.
  LoadedModel(const StoredCheckpoint& checkpoint, const Settings& settings, int64_t capacity);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Generator& generator() { return *generator_; }

 private:
  void measure(DType dtype, int64_t capacity);
  Arena& allocate(std::optional<Arena>& arena, const char* name, int64_t bytes);

  Settings settings_;
  std::unique_ptr<Backend> backend_;
  Mesh mesh_ = Mesh::solo();
  FlatLayout layout_;
  int64_t arena_bytes_ = 0, scratch_bytes_ = 0;
  std::optional<Arena> parameters_, narrow_parameters_, scratch_, arena_;
  std::optional<Weights> weights_;
  std::optional<Generator> generator_;
};

// The checkpoint's settings.
Settings settings_of(const StoredCheckpoint& checkpoint);

}  // namespace trireme
