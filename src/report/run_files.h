// Which files of a folder belong to a run, whoever wrote it: this program, NeMo or LitGPT.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct RunFiles {
  std::vector<std::string> dlloggers, event_files, metrics, settings;
  std::vector<std::string> rank_logs;  // nemo_log_globalrank-R_localrank-L.txt, in the order of ranks
  std::string summary, goodput;
  int64_t ranks = 0;

  bool has_log() const { return !dlloggers.empty() || !event_files.empty() || !metrics.empty(); }
};

RunFiles files_in(const std::filesystem::path& folder);
RunFiles files_among(const std::vector<std::filesystem::path>& entries);  // of a folder, as entries_of has them

// Adds settings that are one level or more above the logs: the launcher's <run>_hydra.yaml beside its results folder, LitGPT's
// beside version_0.
void add_settings_around(const std::filesystem::path& run, const std::filesystem::path& top, RunFiles& files);

// The entries of a folder, with numbers in their names compared as numbers. An unreadable folder has none.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

bool is_event_file(const std::filesystem::path& path);

// Whether a folder may hold runs below it: not checkpoints, hidden folders and archives of earlier starts.
bool may_hold_runs(const std::filesystem::path& folder);

// The rank in the name of a text log.
std::optional<int64_t> rank_of_text_log(std::string_view name);

// "demo, 2026-11-15 05:39:00" for runs/demo/2026-11-15_05-39-00; nothing for a folder that is not named by a time.
std::optional<std::string> recipe_and_time(const std::filesystem::path& folder);

nlohmann::json read_summary_file(const std::string& path);  // null if it is not an object

}  // namespace trireme
