#include "convert/peft_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/settings_reader.h"
#include "config/yaml.h"
#include "convert/hf_files.h"
#include "convert/new_folder.h"
#include "train/checkpoint/json.h"
#include "train/checkpoint/reader.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfig = "adapter_config.json", *kWeights = "adapter_model.safetensors";

std::string our_name(const MappedTensor& tensor) { return fmt::format("lora.{}.{}", tensor.ours, tensor.first_row); }

std::string module_of(const MappedTensor& tensor) { return tensor.theirs.substr(0, tensor.theirs.rfind('.')); }

std::string their_name(const MappedTensor& tensor, const char* which) {
  return fmt::format("base_model.model.{}.lora_{}.weight", module_of(tensor), which);
}

// B has the rows of the weight, in the same order. GPT-2's Conv1D is transposed in the files of models, not in adapters.
MappedTensor rows_of_b(const MappedTensor& tensor, int64_t rank) {
  MappedTensor b = tensor;
  b.width = rank;
  b.shape = {tensor.rows, rank};
  if (b.layout == TensorLayout::transposed) b.layout = TensorLayout::as_is;
  return b;
}

std::vector<float> read_tensor(const StoredCheckpoint& checkpoint, const std::string& name, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.count()));
  const Tensor to{.data = values.data(), .dtype = DType::f32, .shape = shape, .device = Device::host};
  load_checkpoint(checkpoint, std::vector<CheckpointTensor>{{name, TensorSlice::whole(shape), to}});
  return values;
}

Settings settings_in(const StoredCheckpoint& checkpoint) {
  return read_settings(read_yaml(checkpoint.manifest.info.settings, checkpoint.folder.string())).settings;
}

nlohmann::ordered_json config_json(const HfModel& model, const std::vector<MappedTensor>& tensors) {
  // The last two parts of a name: c_proj alone is in attention and MLP.
  std::set<std::string> modules;
  for (const MappedTensor& tensor : tensors) {
    const std::string module = module_of(tensor);
    modules.insert(module.substr(module.rfind('.', module.rfind('.') - 1) + 1));
  }
  const LoraSettings& lora = model.settings.model.peft.lora;
  const bool is_transposed = std::ranges::any_of(tensors, [](const auto& t) { return t.layout == TensorLayout::transposed; });
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", model.settings.model.restore_from_path},
          {"r", lora.adapter_dim},
          {"lora_alpha", lora.scale() * static_cast<double>(lora.adapter_dim)},
          {"lora_dropout", 0.0},
          {"bias", "none"},
          {"fan_in_fan_out", is_transposed},
          {"target_modules", modules},
          {"inference_mode", true}};
}

}  // namespace

PeftExport::PeftExport(StoredCheckpoint checkpoint)
    : checkpoint_(std::move(checkpoint)), model_(hf_model_of(settings_in(checkpoint_))) {
  std::set<std::string> stored;
  for (const StoredShard& shard : checkpoint_.manifest.shards)
    for (const StoredTensor& tensor : shard.tensors) stored.insert(tensor.name);
  for (MappedTensor& tensor : map_tensors(model_))
    if (stored.contains(our_name(tensor) + ".a")) tensors_.push_back(std::move(tensor));
  if (tensors_.empty())
    throw UserError("{} has no adapters; they come from training with model.peft.peft_scheme=lora", checkpoint_.folder.string());
}

int64_t PeftExport::parameters() const {
  int64_t count = 0;
  for (const MappedTensor& tensor : tensors_) count += model_.settings.model.peft.lora.adapter_dim * (tensor.rows + tensor.width);
  return count;
}

void PeftExport::write(const fs::path& output) const {
  NewFolder folder(output);
  const int64_t rank = model_.settings.model.peft.lora.adapter_dim;
  std::vector<SafetensorsTensor> named;
  for (const MappedTensor& tensor : tensors_) {
    named.push_back({.name = their_name(tensor, "A"), .shape = {rank, tensor.width}});
    named.push_back({.name = their_name(tensor, "B"), .shape = {tensor.rows, rank}});
  }
  const SafetensorsHeader header = make_safetensors_header(std::move(named), {{"format", "pt"}});
  File file = File::create(folder.temporary() / kWeights);
  file.write(header.bytes);
  for (const MappedTensor& tensor : tensors_) {
    const std::vector<float> a = read_tensor(checkpoint_, our_name(tensor) + ".a", {rank, tensor.width}),
                             b = read_tensor(checkpoint_, our_name(tensor) + ".b", {tensor.rows, rank});
    file.write(std::as_bytes(std::span(a)));
    std::vector<float> theirs(b.size());
    rearrange_to_theirs(rows_of_b(tensor, rank), b, theirs);
    file.write(std::as_bytes(std::span(theirs)));
  }
  file.sync();
  atomic_write(folder.temporary() / kConfig, bytes_of(json_text(config_json(model_, tensors_)) + "\n"));
  folder.commit();
}

PeftAdapter::PeftAdapter(const fs::path& folder, const Settings& settings, size_t matrices)
    : file_(folder / kWeights), model_(map_tensors(hf_model_of(settings))) {
  for (const char* name : {kConfig, kWeights})
    if (!fs::is_regular_file(folder / name))
      throw UserError("model.peft.restore_from_path={}: {} is not there; name a folder that PEFT has saved", folder.string(),
                      name);
  const nlohmann::json config = parse_strict_json(read_file(folder / kConfig, 1 << 20), (folder / kConfig).string());
  const LoraSettings& lora = settings.model.peft.lora;
  const auto number = [&](const char* key) {
    return config.contains(key) && config[key].is_number() ? config[key].get<double>() : -1;
  };
  const double alpha = lora.scale() * static_cast<double>(lora.adapter_dim);
  if (number("r") != static_cast<double>(lora.adapter_dim) || number("lora_alpha") != alpha)
    throw UserError(
        "model.peft.restore_from_path={}: its adapters have rank {} and alpha {}; set "
        "model.peft.lora_tuning.adapter_dim and alpha, which are {} and {}, to those",
        folder.string(), number("r"), number("lora_alpha"), lora.adapter_dim, alpha);
  for (const SafetensorsTensor& tensor : read_safetensors_header(File::open(file_), ForeignTypes::accepted).tensors)
    theirs_.emplace(tensor.name, tensor);
  if (theirs_.size() != 2 * matrices)
    throw UserError(
        "model.peft.restore_from_path={}: it has {} tensors, and {} are trained here; model.peft.lora_tuning.target_modules "
        "must name what it was made for",
        folder.string(), theirs_.size(), 2 * matrices);
}

void PeftAdapter::load(std::span<const CheckpointTensor> tensors) const {
  for (const CheckpointTensor& wanted : tensors) {
    const bool is_a = wanted.name.ends_with(".a");
    const std::string name = wanted.name.substr(0, wanted.name.size() - 2);
    const auto mapped = std::ranges::find(model_, name, our_name);
    CHECK(mapped != model_.end());
    const auto stored = theirs_.find(their_name(*mapped, is_a ? "A" : "B"));
    if (stored == theirs_.end() || stored->second.shape != wanted.slice.global)
      throw UserError(
          "model.peft.restore_from_path={}: it has no {} of {}; model.peft.lora_tuning.target_modules must name what it "
          "was made for",
          file_.parent_path().string(), their_name(*mapped, is_a ? "A" : "B"), wanted.slice.global);
    std::vector<float> values(static_cast<size_t>(wanted.slice.global.count())), ours(values.size());
    HfFiles::read({file_, stored->second}, values);
    if (is_a)
      ours = values;
    else
      rearrange_to_ours(rows_of_b(*mapped, wanted.slice.global[1]), values, ours);
    for (const CopyRun& run : common_runs(TensorSlice::whole(wanted.slice.global), wanted.slice))
      copy_elements(ours.data() + run.from, wanted, run.to, run.count);
  }
}

}  // namespace trireme
