// One reader per kind of log. Each returns the intact part of its file, adds notes about the rest, and throws a UserError for a
// file without data of its kind. Steps are numbered as in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "config/tree.h"
#include "report/run_log.h"

namespace trireme {

// When each record was written, in seconds, as one more series.
enum class Timestamps : uint8_t { left_out, kept };
inline constexpr std::string_view kTimestamp = "timestamp in s";

// Reads a log piece by piece, so that a run can be followed. The readers below use it for whole files.
class LogParser {
 public:
  virtual ~LogParser() = default;

  // Reads the complete records at the start of `bytes`, which begin where the previous call stopped, and returns how many bytes
  // they take. UserError if this is not a log of its kind.
  virtual size_t read(std::string_view bytes) = 0;

  SeriesBuilder series;
  Parameters parameters;
};

std::unique_ptr<LogParser> dllogger_parser(Timestamps timestamps);
std::unique_ptr<LogParser> event_parser(Timestamps timestamps);
std::unique_ptr<LogParser> csv_parser(const std::string& path);  // the path is for errors

// DLLogger's JSON lines, ours and NeMo's: "DLLL {...}". A step may be 47, 47.0 or [47]. Records without a step, metadata and
// lines of other programs are ignored. NaN and Infinity are read as Python writes them.
RunLog read_dllogger(const std::string& path);

// TensorBoard event files of one run, in the order of their names: scalars, as simple values or as tensors. Checksums are
// verified; a file is read up to its first damaged record. After a restart (SessionLog START) new steps replace old ones.
RunLog read_event_files(const std::vector<std::string>& paths);

// metrics.csv of ours, Lightning's and LitGPT's: a header, one row per call of the logger, empty cells for missing values.
RunLog read_metrics_csv(const std::string& path);

// Settings from a YAML file of the run: hparams.yaml (under "cfg:"), a recipe, or LitGPT's. Returns all leaves, by dotted path.
RunLog read_settings_file(const std::string& path);

// Recognise a log by its first bytes.
bool looks_like_dllogger(std::string_view first_bytes);
bool looks_like_event_file(std::string_view first_bytes);  // needs 12 bytes

// Returns the contents of a log file. UserError if it does not exist or is not a file.
std::string read_log_file(const std::string& path);

// Returns the recipe's name of a setting: "model.optim.lr" for "cfg/optim/lr" and "cfg.optim.lr".
std::string recipe_key(std::string_view logged);

}  // namespace trireme
