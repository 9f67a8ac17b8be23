// The tensors of an engine in a checkpoint: masters and Adam moments, each under its parameter's global name.
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/engine.h"

namespace trireme {

// The parameter itself (its f32 master), and its moments under first_moment.<name> and second_moment.<name>: of what this rank
// owns, all of it to be loaded, or what it alone is to save. With FP8 also the rows of its table, under fp8.<name of the
// layer>.input and .output_grad; in fp16 the loss scale and its counters, under kLossScale.
enum class CheckpointUse : uint8_t { load, save };
std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine, CheckpointUse use);

// A run may continue in FP8 or fp16 that began without it, or with other FP8 settings. Unless the checkpoint has all FP8 rows in
// `wanted` with their shapes, removes them from `wanted`; the same for the loss scale.
enum class ScalesFound : uint8_t { no, yes };
ScalesFound keep_scales_if_there(const CheckpointManifest& manifest, std::vector<CheckpointTensor>& wanted);

inline constexpr const char* kLossScale = "loss_scale";

// Whether, with LoRA, a tensor of a checkpoint is not read by a run that resumes from it: a weight, which is made from that of
// the model that the run began with and the adapters.
bool is_made_from_adapters(const std::string& name);

int64_t saved_bytes(const Engine& engine);

// The parameters alone, those of an engine or of the views of a rank, without their padding rows.
std::vector<CheckpointTensor> parameter_tensors(const Engine& engine);
std::vector<CheckpointTensor> parameter_tensors(const FlatLayout& layout, const FlatViews& views, Backend& backend);

// UserError, naming the first tensor that is missing or of another shape and the settings that differ, unless the checkpoint's
// parameters are those of the model; `checkpoint_name` is how the user knows it: "model.restore_from_path=folder".
void require_same_parameters(const StoredCheckpoint& checkpoint, const ModelSettings& model, const std::string& checkpoint_name);

}  // namespace trireme
