// What a run consists of before its first step: machine, mesh, data, memory plan, folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cost/timed_backend.h"
#include "base/process.h"
#include "convert/peft_files.h"
#include "data/batch/sampler.h"
#include "data/dataset.h"
#include "telemetry/telemetry.h"
#include "train/agreement.h"
#include "train/checkpoint/checkpoint.h"
#include "train/memory_plan.h"
#include "train/model_source.h"
#include "train/rank_machine.h"
#include "train/run_folder.h"
#include "train/run_request.h"

namespace trireme {

struct RunSetup {
  // Checks the settings against machine, folder and checkpoints, plans the memory and opens the data. All ranks make theirs
  // together. Allocates nothing of the model, writes nothing.
  RunSetup(RunRequest asked, World& ranks);
  RunSetup(const RunSetup&) = delete;
  RunSetup& operator=(const RunSetup&) = delete;

  bool is_first() const { return world.rank() == 0; }    // rank 0 speaks for all
  bool counts_targets() const;                           // whether this rank counts the targets of the samples that it reads
  int64_t micro_batches_of(int64_t global_batch) const;  // of this rank
  SamplerLayout sampler_layout() const;
  EngineSettings engine_settings() const;
  MemoryUse memory_in_use() const;                  // of the device that the model is on
  std::filesystem::path local_checkpoints() const;  // the folder of this machine for this run; empty: none
  void claim_folder();                              // makes the folder; all ranks together

  const RunRequest request;
  const Settings& settings = request.settings;
  const ModelSettings& model = request.settings.model;
  World& world;
  Control& control = world.control();
  const MeshPlace place;
  RankMachine machine;
  OpTrace trace;
  std::unique_ptr<TimedBackend> timed_backend;  // where ops are traced or profiled
  Backend& backend;                             // the one of the two that the run uses
  Mesh mesh;
  Agreement agreement;
  RateBasis rates;
  std::optional<StepPrediction> prediction;
  RunFolder folder;
  std::optional<ModelSource> restored;  // model.restore_from_path
  std::optional<PeftAdapter> adapter;   // model.peft.restore_from_path
  MemoryPlan plan;
  std::vector<std::pair<std::string, int64_t>> other_memory;  // what the plan's arenas do not hold
  std::unique_ptr<Dataset> train_data, validation_data;
  DocumentRules documents;
  int64_t validation_batches = 0;  // global batches of one validation

 private:
  RunFolder choose_folder() const;
  void require_run_to_resume() const;
  void require_resumable() const;  // the newest checkpoint, if there is one, is of this model and before the end of the run
  void require_same_mathematics() const;
  void open_model_to_restore();
  void start_tuning() const;
  void plan_all_memory();
  void add_memory_of_program();  // once it has grown to its size
  void open_data();
  void tell(Severity severity, std::string_view text) const;  // before there are logs
};

}  // namespace trireme
