// One reader per kind of log. Each gives what is whole in its file, notes what is not, and answers a file that holds nothing of
// its kind with a UserError. Steps are numbered as in the file.
#pragma once

#include <string>
#include <string_view>

#include "config/tree.h"
#include "report/run_log.h"

namespace trireme {

// DLLogger's JSON lines, ours and NeMo's: "DLLL {...}". A step may be 47, 47.0 or [47]; records without one, of metadata, and
// lines of other programs are passed over. NaN and Infinity are read as Python writes them.
RunLog read_dllogger(const std::string& path);

// TensorBoard event files of one run, in the order of their names: scalars, as simple values or as tensors. Checksums are
// verified; a file is read up to its first damaged record. After a restart (SessionLog START) the new steps replace the old.
RunLog read_event_files(const std::vector<std::string>& paths);

// metrics.csv, ours, Lightning's and LitGPT's: a header, one row per call of the logger, cells left empty where a row has no
// such value.
RunLog read_metrics_csv(const std::string& path);

// Settings from a YAML file of the run: hparams.yaml (under "cfg:"), a recipe, or LitGPT's. All leaves, by dotted path.
RunLog read_settings_file(const std::string& path);

// A record's first bytes say what wrote it.
bool looks_like_dllogger(std::string_view first_bytes);
bool looks_like_event_file(std::string_view first_bytes);  // needs 12 of them

// The whole of a file that is to be read here. UserError if it is not there, or not a file.
std::string read_log_file(const std::string& path);

// The name that a setting has in a recipe: "cfg/optim/lr" and "cfg.optim.lr" are "model.optim.lr".
std::string recipe_key(std::string_view logged);

}  // namespace trireme
