#include "convert/imported_run.h"

#include <fmt/chrono.h>

#include <ctime>

#include "base/build_info.h"
#include "base/file.h"
#include "config/settings_printer.h"
#include "config/yaml.h"
#include "convert/new_folder.h"
#include "model/parameter_table.h"
#include "train/checkpoint/writer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<CheckpointTensor> checkpoint_tensors(const ImportedRun& run) {
  std::vector<CheckpointTensor> tensors;
  for (const char* prefix : {"", "first_moment.", "second_moment."})
    if (run.has_optimizer || *prefix == '\0')
      for (const ParameterRow& row : parameter_table(run.settings.model))
        tensors.push_back({prefix + row.name, TensorSlice::whole(row.shape), Tensor{.dtype = DType::f32, .shape = row.shape}});
  return tensors;
}

}  // namespace

int64_t parameters_of(const ModelSettings& model) {
  int64_t count = 0;
  for (const ParameterRow& row : parameter_table(model)) count += row.count();
  return count;
}

std::string write_imported_run(const fs::path& output, const ImportedRun& run) {
  NewFolder folder(output);
  const fs::path checkpoints = folder.temporary() / "checkpoints";
  const fs::path writing = checkpoints / (checkpoint_name(run.step) + kWritingSuffix);
  const ShardLayout layout = lay_out_shard(checkpoint_tensors(run));
  constexpr int64_t kSmallFiles = 64 << 20;
  require_free_space(folder.temporary(), layout.bytes + kSmallFiles, "cannot import to " + output.string());

  Settings settings = run.settings;
  settings.exp_manager.name = folder.path().filename().string();
  settings.model.restore_from_path = folder.path().string();
  Tree recipe = to_tree(settings);
  std::string tokenizer = run.tokenizer(folder.temporary() / "tokenizer", folder.path() / "tokenizer", recipe);
  const std::string yaml = write_yaml(recipe);

  create_folders(writing);
  const StoredShard shard = stream_shard(writing, 0, layout, [&](const StoredTensor& stored, std::span<std::byte> bytes) {
    run.fill(stored.name, {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
  });
  nlohmann::json state = {{"updates", run.updates}};
  if (!run.has_optimizer) state[kWeightsOnly] = true;
  const CheckpointInfo info{
      .step = run.step, .consumed_samples = run.consumed_samples, .commit = kCommit, .settings = yaml, .state = state};
  const std::string created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  commit_checkpoint(writing, checkpoints / checkpoint_name(run.step), {info, created, {shard}});
  atomic_write(folder.temporary() / "recipe.yaml", bytes_of(run.heading + yaml));
  folder.commit();
  return tokenizer;
}

}  // namespace trireme
