#include "evaluate/model_source.h"

#include "convert/hf_import.h"
#include "data/tokenizer/load_tokenizer.h"
#include "data/tokenizer/recipe_tokenizer.h"
#include "model/parameter_table.h"
#include "train/loaded_model.h"
#include "train/run_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

ModelSource source_of_model(const std::string& named) {
  const auto model = std::make_shared<const HfImport>(fs::path(named));
  std::string identity = fs::absolute(named).string();
  for (const fs::path& file : model->files())
    identity += fmt::format(" {} {} {}", file.filename().string(), fs::file_size(file),
                            fs::last_write_time(file).time_since_epoch().count());
  return {.named = named,
          .identity = identity,
          .settings = model->model().settings,
          .notes = {},
          .load = [model](const std::vector<CheckpointTensor>& tensors) { model->load(tensors); },
          .open_tokenizer = [named]() -> std::unique_ptr<Tokenizer> { return load_tokenizer(named); }};
}

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& named, const ModelSettings& model) {
  const RecipeTokenizer tokenizer = named_tokenizer(model.tokenizer);
  if (tokenizer.kind == RecipeTokenizer::Kind::bytes && model.data.data_impl != DataImpl::text)
    throw UserError("{} was trained on model.data.data_impl={} and names no tokenizer; give one with --tokenizer", named,
                    name_of(model.data.data_impl));
  return tokenizer.open();
}

ModelSource source_of_checkpoint(const std::string& named) {
  const NewestCheckpoint found = open_named_checkpoint(named);
  const auto checkpoint = std::make_shared<const StoredCheckpoint>(*found.checkpoint);
  Settings settings = settings_of(*checkpoint);
  const CheckpointManifest& manifest = checkpoint->manifest;
  return {.named = named,
          .identity = fmt::format("{} {} {}", fs::absolute(checkpoint->folder).string(), manifest.info.step, manifest.created),
          .step = manifest.info.step,
          .settings = settings,
          .notes = found.skipped,
          .load = [checkpoint](const std::vector<CheckpointTensor>& tensors) { load_checkpoint(*checkpoint, tensors); },
          .open_tokenizer = [named, model = settings.model] { return tokenizer_of(named, model); }};
}

}  // namespace

int64_t ModelSource::parameters() const {
  int64_t count = 0;
  for (const ParameterRow& row : parameter_table(settings.model)) count += row.count();
  return count;
}

ModelSource open_model_source(const std::string& named, const std::string& tokenizer) {
  std::error_code failed;
  ModelSource source = fs::exists(fs::path(named) / "config.json", failed) || named.ends_with(".safetensors")
                           ? source_of_model(named)
                           : source_of_checkpoint(named);
  if (!tokenizer.empty())
    source.open_tokenizer = [tokenizer]() -> std::unique_ptr<Tokenizer> { return load_tokenizer(tokenizer); };
  return source;
}

}  // namespace trireme
