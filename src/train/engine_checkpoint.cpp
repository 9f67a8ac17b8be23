#include "train/engine_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "config/settings_printer.h"
#include "config/settings_reader.h"
#include "model/parameter_table.h"
#include "train/loaded_model.h"

namespace trireme {
namespace {

constexpr const char* kScales = "fp8.";     // rows of the table begin so
constexpr const char* kAdapters = "lora.";  // what LoRA trains, and what generation and export do not read

}  // namespace

std::vector<CheckpointTensor> parameter_tensors(const FlatLayout& layout, const FlatViews& views, Backend& backend) {
  std::vector<CheckpointTensor> tensors;
  for (size_t row = 0; row < layout.table.size(); ++row) {
    const ParameterRow& parameter = layout.table[row];
    const Tensor local = views.parameter(row).reshaped({layout.local[row].shape.count()});
    for (const LocalPiece& piece : layout.local[row].pieces)
      tensors.push_back({parameter.name, TensorSlice::rectangle(parameter.shape, piece.offset, piece.extent),
                         local.flat_range(piece.begin, piece.extent), &backend});
  }
  return tensors;
}

namespace {

using ValuesOf = std::function<Tensor(const Bucket&, const OwnedPart&)>;

// Of what several ranks hold alike, one saves it.
bool has_use(const FlatLayout& layout, const OwnedPart& part, CheckpointUse use) {
  return use == CheckpointUse::load || counts(layout.table[part.row], layout.shard);
}

void add_parts(const Engine& engine, CheckpointUse use, const std::string& prefix, Backend* backend, const ValuesOf& values_of,
               std::vector<CheckpointTensor>& to) {
  const FlatLayout& layout = engine.layout();
  for (const Bucket& bucket : layout.buckets)
    for (const OwnedPart& part : bucket.parts) {
      if (!has_use(layout, part, use)) continue;
      const ParameterRow& row = layout.table[part.row];
      const TensorSlice slice =
          TensorSlice::rectangle(row.shape, part.piece.offset, part.piece.extent).part(part.begin, part.count);
      to.push_back({prefix + row.name, slice, values_of(bucket, part).reshaped(slice.shape()), backend});
    }
}

void add_masters(const Engine& engine, CheckpointUse use, std::vector<CheckpointTensor>& to) {
  add_parts(
      engine, use, "", engine.master_backend(),
      [&](const Bucket& bucket, const OwnedPart& part) { return engine.master(bucket, part); }, to);
}

}  // namespace

std::vector<CheckpointTensor> parameter_tensors(const Engine& engine) {
  std::vector<CheckpointTensor> tensors;
  add_masters(engine, CheckpointUse::load, tensors);
  return tensors;
}

std::vector<CheckpointTensor> checkpoint_tensors(const Engine& engine, CheckpointUse use) {
  std::vector<CheckpointTensor> tensors;
  add_masters(engine, use, tensors);
  const auto add = [&](const std::string& prefix, Tensor state) {
    add_parts(
        engine, use, prefix, engine.moment_backend(),
        [&](const Bucket&, const OwnedPart& part) { return state.rows(part.state, part.count); }, tensors);
  };
  const RankShard& shard = engine.layout().shard;
  const bool first_of_stage = shard.tp_rank == 0 && shard.dp_rank == 0 && shard.copy == 0;  // the others have the same
  if (engine.lora() != nullptr) {
    const auto held = use == CheckpointUse::load ? LoraAdapters::Held::all : LoraAdapters::Held::counted;
    std::ranges::copy(engine.lora()->tensors(held), std::back_inserter(tensors));
  } else {
    add("first_moment.", engine.first_moment());
    add("second_moment.", engine.second_moment());
  }
  if (engine.fp8() != nullptr && (use == CheckpointUse::load || first_of_stage))
    for (const Fp8State::Row& row : engine.fp8()->rows())
      tensors.push_back({row.name, TensorSlice::whole(row.values.shape), row.values, &engine.backend()});
  if (const Tensor scale = engine.loss_scale(); scale && (use == CheckpointUse::load || (first_of_stage && shard.pp_rank == 0)))
    tensors.push_back({kLossScale, TensorSlice::whole(scale.shape), scale, &engine.backend()});
  return tensors;
}

ScalesFound keep_scales_if_there(const CheckpointManifest& manifest, std::vector<CheckpointTensor>& wanted) {
  std::map<std::string, Shape> stored;
  for (const StoredShard& shard : manifest.shards)
    for (const StoredTensor& tensor : shard.tensors)
      if (tensor.name.starts_with(kScales) || tensor.name == kLossScale) stored.emplace(tensor.name, tensor.slice.global);
  if (!stored.contains(kLossScale))
    std::erase_if(wanted, [](const CheckpointTensor& tensor) { return tensor.name == kLossScale; });
  const auto is_scale = [](const CheckpointTensor& tensor) { return tensor.name.starts_with(kScales); };
  const auto is_there = [&](const CheckpointTensor& tensor) {
    const auto at = stored.find(tensor.name);
    return !is_scale(tensor) || (at != stored.end() && at->second == tensor.slice.global);
  };
  if (std::ranges::all_of(wanted, is_there)) return ScalesFound::yes;
  std::erase_if(wanted, is_scale);
  return ScalesFound::no;
}

bool is_made_from_adapters(const std::string& name) {
  return name.find(kAdapters) == std::string::npos && !name.starts_with(kScales) && name != kLossScale;
}

int64_t saved_bytes(const Engine& engine) {
  int64_t bytes = 0;
  for (const CheckpointTensor& tensor : checkpoint_tensors(engine, CheckpointUse::save))
    if (!tensor.name.starts_with(kScales) && tensor.name != kLossScale) bytes += tensor.tensor.bytes();
  return bytes;
}

namespace {

bool have_same_shapes(const ModelSettings& a, const ModelSettings& b) {
  return std::ranges::equal(parameter_table(a), parameter_table(b), [](const ParameterRow& one, const ParameterRow& other) {
    return one.name == other.name && one.shape == other.shape;
  });
}

// The settings by which the parameters of the checkpoint differ: "model.num_layers is 2 there and 3 here".
std::string differing_settings(const StoredCheckpoint& checkpoint, const ModelSettings& model) {
  std::vector<std::string> found;
  try {
    Settings now;
    now.model = model;
    const Tree here = to_tree(now), there = to_tree(settings_of(checkpoint));
    for (const Tree::Entry& entry : there.find("model")->map()) {
      const std::string key = "model." + entry.key;
      const Tree* own = here.find(key);
      if (own == nullptr || entry.value.is_map() || entry.value.text() == own->text()) continue;
      Tree changed = here;
      changed.set(key, entry.value);
      if (!have_same_shapes(read_settings(changed).settings.model, model))
        found.push_back(fmt::format("{} is {} there and {} here", key, entry.value.brief(), own->brief()));
    }
  } catch (const UserError&) {
    // Settings of another version; the tensor says enough.
  }
  return found.empty() ? "its settings are in manifest.json there" : fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

void require_same_parameters(const StoredCheckpoint& checkpoint, const ModelSettings& model, const std::string& checkpoint_name) {
  std::map<std::string, Shape> stored;
  for (const StoredShard& shard : checkpoint.manifest.shards)
    for (const StoredTensor& tensor : shard.tensors) stored.emplace(tensor.name, tensor.slice.global);
  const auto refuse = [&](const std::string& what) {
    throw UserError("{} {}; {}", checkpoint_name, what, differing_settings(checkpoint, model));
  };
  for (const ParameterRow& row : parameter_table(model)) {
    const auto found = stored.find(row.name);
    if (found == stored.end()) return refuse(fmt::format("has no {}, which this model has", row.name));
    if (found->second != row.shape)
      return refuse(fmt::format("has {} as {}, and this model as {}", row.name, found->second, row.shape));
    stored.erase(found);
  }
  for (const auto& [name, shape] : stored)
    if (!name.starts_with("first_moment.") && !name.starts_with("second_moment.") && !name.starts_with(kScales) &&
        !name.starts_with(kAdapters) && name != kLossScale)
      return refuse(fmt::format("has {}, which this model has not", name));
}

}  // namespace trireme
