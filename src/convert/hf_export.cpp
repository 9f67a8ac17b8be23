#include "convert/hf_export.h"

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "config/settings_printer.h"
#include "config/settings_reader.h"
#include "config/yaml.h"
#include "convert/new_folder.h"
#include "convert/parameter_reader.h"
#include "data/tokenizer/recipe_tokenizer.h"
#include "model/dims.h"

namespace trireme {
namespace {

// The rows of our parameter that belong in one of their tensors.
std::span<const float> rows_of(ParameterReader& reader, const MappedTensor& tensor) {
  return reader.read(tensor.ours)
      .subspan(static_cast<size_t>(tensor.first_row * tensor.width), static_cast<size_t>(tensor.count()));
}

void write_values(File& file, DType dtype, std::span<const float> values) {
  if (dtype == DType::f32) return file.write(std::as_bytes(values));
  const auto write = [&](auto&& narrow_one) {
    std::vector<decltype(narrow_one(0.0f))> narrow_values(values.size());
    std::ranges::transform(values, narrow_values.begin(), narrow_one);
    file.write(std::as_bytes(std::span(narrow_values)));
  };
  dtype == DType::bf16 ? write(to_bf16) : write(to_f16);
}

const char* torch_name(DType dtype) { return dtype == DType::f32 ? "float32" : dtype == DType::bf16 ? "bfloat16" : "float16"; }

}  // namespace

int64_t HfExport::Shard::bytes() const {
  int64_t count = 0;
  for (const MappedTensor& tensor : tensors) count += tensor.count();
  return count * element_bytes;
}

HfExport::HfExport(StoredCheckpoint checkpoint, const HfExportOptions& options)
    : checkpoint_(std::move(checkpoint)),
      recipe_(read_yaml(checkpoint_.manifest.info.settings, checkpoint_.folder.string())),
      model_(hf_model_of(read_settings(recipe_).settings)),
      dtype_(options.dtype.value_or(activation_dtype(model_.settings.trainer.precision))),
      tokenizer_(tokenizer_of(recipe_)) {
  CHECK(dtype_ == DType::f32 || dtype_ == DType::bf16 || dtype_ == DType::f16);
  check_tokenizer();
  for (MappedTensor& tensor : map_tensors(model_)) {
    if (tensor.side == TensorSide::ours_only) continue;
    const int64_t bytes = tensor.count() * size_of(dtype_);
    if (shards_.empty() || shards_.back().bytes() + bytes > options.max_shard_bytes)
      shards_.push_back({.file = {}, .tensors = {}, .element_bytes = size_of(dtype_)});
    shards_.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards_.size(); ++i)
    shards_[i].file =
        shards_.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
}

// A tokenizer that cannot be read here is exported unchecked.
void HfExport::check_tokenizer() {
  const RecipeTokenizer named = named_tokenizer(model_.settings.model.tokenizer);
  if (named.kind != RecipeTokenizer::Kind::files) return;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = named.open();
  } catch (const UserError&) {
    return;
  }
  require_vocabulary(model_.settings.model.vocab_size, *tokenizer, named);
  if (tokenizer->end_of_document() >= 0) tokenizer_.end_token = tokenizer->end_of_document();
}

int64_t HfExport::parameters() const { return bytes() / size_of(dtype_); }

int64_t HfExport::bytes() const {
  int64_t bytes = 0;
  for (const Shard& shard : shards_) bytes += shard.bytes();
  return bytes;
}

std::vector<std::string> HfExport::files() const {
  std::vector<std::string> files;
  for (const Shard& shard : shards_) files.push_back(shard.file);
  return files;
}

std::vector<std::string> HfExport::folded() const {
  const Tree settings = to_tree(model_.settings);
  std::vector<std::string> lines;
  for (const FamilySetting& setting : model_.family->settings)
    if (const std::string value = settings.find(setting.key)->text(); value != setting.value)
      lines.push_back(fmt::format("{}={} is written as {} of the same effect", setting.key, value, setting.value));
  return lines;
}

SafetensorsHeader HfExport::header_of(const Shard& shard) const {
  std::vector<SafetensorsTensor> tensors;
  for (const MappedTensor& tensor : shard.tensors) tensors.push_back({tensor.theirs, dtype_, tensor.shape});
  return make_safetensors_header(std::move(tensors), {{"format", "pt"}});
}

void HfExport::write_shard(const std::filesystem::path& folder, const Shard& shard) const {
  const SafetensorsHeader header = header_of(shard);
  File file = File::create(folder / shard.file);
  file.write(header.bytes);
  ParameterReader reader(checkpoint_, model_.settings.model);
  std::vector<float> values;
  for (const MappedTensor& tensor : shard.tensors) {
    values.assign(static_cast<size_t>(tensor.count()), 0.0f);
    if (tensor.side == TensorSide::both) rearrange_to_theirs(tensor, rows_of(reader, tensor), values);
    if (tensor.added != 0)
      for (float& value : values) value += tensor.added;
    write_values(file, dtype_, values);
  }
  file.sync();
}

std::string HfExport::index_json() const {
  nlohmann::ordered_json index = {{"metadata", {{"total_size", bytes()}}}, {"weight_map", nlohmann::ordered_json::object()}};
  for (const Shard& shard : shards_)
    for (const MappedTensor& tensor : shard.tensors) index["weight_map"][tensor.theirs] = shard.file;
  return json_text(index) + "\n";
}

void HfExport::write(const std::filesystem::path& output) const {
  NewFolder folder(output);
  constexpr int64_t kSmallFiles = 16 << 20;
  require_free_space(folder.temporary(), bytes() + kSmallFiles, "cannot export to " + output.string());
  const auto put = [&](const std::string& name, const std::string& text) {
    atomic_write(folder.temporary() / name, bytes_of(text));
  };
  put("config.json", json_text(write_hf_config(model_, {.dtype = torch_name(dtype_), .end_token = tokenizer_.end_token})) + "\n");
  for (const auto& [name, text] : tokenizer_.texts) put(name, text);
  for (const auto& [file, name] : tokenizer_.copies) put(name, read_file(file, int64_t{1} << 28));
  for (const Shard& shard : shards_) write_shard(folder.temporary(), shard);
  if (shards_.size() > 1) put("model.safetensors.index.json", index_json());
  folder.commit();
}

}  // namespace trireme
