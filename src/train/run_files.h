// The small files of a run's folder that say what it is and how it was started, with the names that scripts of NeMo users look
// for. docs/logs.md lists all files of the folder.
#pragma once

#include <string>

#include "config/settings.h"
#include "telemetry/step_record.h"
#include "train/run_folder.h"

namespace trireme {

struct StartFacts {
  std::string recipe_text;   // recipe.yaml: every setting, as a recipe
  std::string hparams_text;  // hparams.yaml: the model's settings under "cfg:"
  std::string arguments;     // a line of cmd-args.log
  std::string commit;        // git-info.log
  int64_t ranks = 1;
  int64_t nodes = 1;
};

// UserError if a file of exp_manager.files_to_copy is not there. Asked before anything is made.
void require_files_to_copy(const ExpManagerSettings& settings);

// At the start of a run, resumed or not. Files that grow (cmd-args.log, git-info.log, joblog.log) get what is new at their end;
// of the others an older version with other contents stays as recipe.1.yaml and so on.
void write_start_files(const RunFolder& folder, const ExpManagerSettings& settings, const StartFacts& facts,
                       const Notify& notify);

// At its end: joblog.log.
void write_end_files(const RunFolder& folder, const RunEnding& ending, const Notify& notify);

}  // namespace trireme
