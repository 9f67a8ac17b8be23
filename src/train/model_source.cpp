#include "train/model_source.h"

#include <algorithm>
#include <memory>

#include "config/settings_printer.h"
#include "config/settings_reader.h"
#include "convert/hf_import.h"
#include "convert/tokenizer_files.h"
#include "model/parameter_table.h"
#include "train/engine_checkpoint.h"
#include "train/loaded_model.h"
#include "train/run_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void require_same_tables(const ModelSettings& theirs, const ModelSettings& ours, const std::string& named) {
  const std::vector<ParameterRow> there = parameter_table(theirs), here = parameter_table(ours);
  for (const ParameterRow& row : here) {
    const auto found = std::ranges::find(there, row.name, &ParameterRow::name);
    if (found == there.end()) throw UserError("{} has no {}, which this model has", named, row.name);
    if (found->shape != row.shape)
      throw UserError("{} has {} as {}, and this model as {}", named, row.name, found->shape, row.shape);
  }
  for (const ParameterRow& row : there)
    if (std::ranges::find(here, row.name, &ParameterRow::name) == here.end())
      throw UserError("{} has {}, which this model has not", named, row.name);
}

Settings with_tokenizer(const Settings& settings, const fs::path& folder) {
  Tree recipe = to_tree(settings);
  const fs::path place = fs::absolute(folder);
  name_tokenizer(place, place, recipe);
  return read_settings(recipe).settings;
}

ModelSource source_of_model(const std::string& named) {
  const auto model = std::make_shared<const HfImport>(fs::path(named));
  std::string identity = fs::absolute(named).string();
  for (const fs::path& file : model->files())
    identity += fmt::format(" {} {} {}", file.filename().string(), fs::file_size(file),
                            fs::last_write_time(file).time_since_epoch().count());
  return {.named = named,
          .identity = identity,
          .settings = with_tokenizer(model->model().settings, model->folder()),
          .notes = {},
          .load = [model](const std::vector<CheckpointTensor>& tensors) { model->load(tensors); },
          .require_same_parameters =
              [model, named](const ModelSettings& ours, const std::string& key) {
                require_same_tables(model->model().settings.model, ours, key + "=" + named);
              }};
}

ModelSource source_of_checkpoint(const std::string& named) {
  const NewestCheckpoint found = open_named_checkpoint(named);
  const auto checkpoint = std::make_shared<const StoredCheckpoint>(*found.checkpoint);
  const CheckpointManifest& manifest = checkpoint->manifest;
  return {.named = named,
          .identity = fmt::format("{} {} {}", fs::absolute(checkpoint->folder).string(), manifest.info.step, manifest.created),
          .step = manifest.info.step,
          .settings = settings_of(*checkpoint),
          .notes = found.skipped,
          .load = [checkpoint](const std::vector<CheckpointTensor>& tensors) { load_checkpoint(*checkpoint, tensors); },
          .require_same_parameters =
              [checkpoint](const ModelSettings& ours, const std::string& key) {
                require_same_parameters(*checkpoint, ours, key + "=" + checkpoint->folder.string());
              }};
}

}  // namespace

int64_t ModelSource::parameters() const {
  int64_t count = 0;
  for (const ParameterRow& row : parameter_table(settings.model)) count += row.count();
  return count;
}

bool is_transformers_model(const std::string& named) {
  std::error_code failed;
  return named.ends_with(".safetensors") || fs::exists(fs::path(named) / "config.json", failed);
}

ModelSource open_model_source(const std::string& named) {
  return is_transformers_model(named) ? source_of_model(named) : source_of_checkpoint(named);
}

}  // namespace trireme
