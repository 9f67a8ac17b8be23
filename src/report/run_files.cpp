#include "report/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "report/readers.h"
#include "telemetry/goodput.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Compares numbers inside text as numbers: version_10 is after version_9.
bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    uint64_t x = 0, y = 0;
    i = static_cast<size_t>(std::from_chars(a.data() + i, a.data() + a.size(), x).ptr - a.data());
    j = static_cast<size_t>(std::from_chars(b.data() + j, b.data() + b.size(), y).ptr - b.data());
    if (x != y) return x < y;
  }
  return a.size() < b.size();
}

// Every rank writes a text log, so the highest number gives the number of ranks.
int64_t ranks_told_by(const std::string& name) {
  const std::optional<int64_t> rank = rank_of_text_log(name);
  return rank ? *rank + 1 : 0;
}

void add_dlloggers(const fs::path& folder, RunFiles& files) {
  for (const fs::path& rank : entries_of(folder)) {
    const fs::path log = rank / "dllogger.json";
    std::error_code ignored;
    // Files of nodes other than the first stay empty.
    if (fs::is_regular_file(log, ignored) && fs::file_size(log, ignored) > 0) files.dlloggers.push_back(log.string());
  }
}

// NeMo moves the files of earlier starts to run_0, run_1, ...
bool is_archive(const std::string& name) {
  return name.starts_with("run_") && name.find_first_not_of("0123456789", 4) == std::string::npos;
}

}  // namespace

bool is_event_file(const fs::path& path) { return path.filename().string().starts_with("events.out.tfevents."); }

std::optional<int64_t> rank_of_text_log(std::string_view name) {
  constexpr std::string_view kBegin = "nemo_log_globalrank-";
  int64_t rank = 0;
  if (!name.starts_with(kBegin)) return std::nullopt;
  const auto [ptr, error] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), rank);
  const bool is_number = error == std::errc{} && rank >= 0 && rank < (int64_t{1} << 30);
  return is_number ? std::optional(rank) : std::nullopt;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) entries.push_back(it->path());
  std::ranges::sort(entries, [](const fs::path& a, const fs::path& b) { return natural_less(a.string(), b.string()); });
  return entries;
}

RunFiles files_in(const fs::path& folder) { return files_among(entries_of(folder)); }

RunFiles files_among(const std::vector<fs::path>& entries) {
  RunFiles files;
  std::error_code ignored;
  for (const fs::path& path : entries) {
    const std::string name = path.filename().string();
    if (name == "dllogger" && fs::is_directory(path, ignored)) add_dlloggers(path, files);
    if (!fs::is_regular_file(path, ignored)) continue;
    if (name == "dllogger.json") files.dlloggers.push_back(path.string());
    if (name == "metrics.csv") files.metrics.push_back(path.string());
    if (is_event_file(path)) files.event_files.push_back(path.string());
    if (name == "hparams.yaml" || name == "recipe.yaml" || name == "hyperparameters.yaml" || name.ends_with("_hydra.yaml"))
      files.settings.push_back(path.string());
    if (name == "summary.json") files.summary = path.string();
    if (name == kGoodputName) files.goodput = path.string();
    if (rank_of_text_log(name)) files.rank_logs.push_back(path.string());
    files.ranks = std::max(files.ranks, ranks_told_by(name));
  }
  return files;
}

bool may_hold_runs(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return fs::is_directory(path, ignored) && !name.starts_with('.') && name != "checkpoints" && name != "dllogger" &&
         !is_archive(name);
}

std::optional<std::string> recipe_and_time(const fs::path& folder) {
  constexpr std::string_view kPattern = "0000-00-00_00-00-00";
  std::string name = folder.filename().string();
  if (name.size() < kPattern.size()) return std::nullopt;
  for (size_t i = 0; i < kPattern.size(); ++i)
    if (kPattern[i] == '0' ? name[i] < '0' || name[i] > '9' : name[i] != kPattern[i]) return std::nullopt;
  name[10] = ' ', name[13] = name[16] = ':';
  std::error_code failed;
  const std::string recipe = fs::absolute(folder, failed).lexically_normal().parent_path().filename().string();
  return recipe.empty() ? name : fmt::format("{}, {}", recipe, name);
}

nlohmann::json read_summary_file(const std::string& path) {
  nlohmann::json summary = try_parse_json(read_log_file(path));
  return summary.is_object() ? summary : nlohmann::json();
}

void add_settings_around(const fs::path& run, const fs::path& top, RunFiles& files) {
  for (fs::path folder = run; folder != top; folder = folder.parent_path())
    for (std::string& path : files_in(folder.parent_path()).settings) files.settings.push_back(std::move(path));
}

}  // namespace trireme
