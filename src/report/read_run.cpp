#include "report/read_run.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "config/yaml.h"
#include "report/readers.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestLog = int64_t{4} << 30;
constexpr int kDeepestFolder = 4;

bool is_event_file(const fs::path& path) { return path.filename().string().starts_with("events.out.tfevents."); }

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

// Returns the entries in natural order. An unreadable folder has none.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; it != end; it.increment(ignored)) entries.push_back(it->path());
  std::ranges::sort(entries, [](const fs::path& a, const fs::path& b) { return natural_less(a.string(), b.string()); });
  return entries;
}

// ---------------------------------------------------------------------------------------------------------------- files

struct RunFiles {
  std::vector<std::string> dlloggers, event_files, metrics, settings;
  std::string summary;
  int64_t ranks = 0;

  bool has_log() const { return !dlloggers.empty() || !event_files.empty() || !metrics.empty(); }
};

// nemo_log_globalrank-12_localrank-4.txt: every rank writes one, so the highest number gives the number of ranks.
int64_t ranks_told_by(const std::string& name) {
  constexpr std::string_view kBegin = "nemo_log_globalrank-";
  int64_t rank = 0;
  if (!name.starts_with(kBegin)) return 0;
  const auto [ptr, error] = std::from_chars(name.data() + kBegin.size(), name.data() + name.size(), rank);
  return error == std::errc{} && rank < (int64_t{1} << 30) ? rank + 1 : 0;
}

void add_dlloggers(const fs::path& folder, RunFiles& files) {
  for (const fs::path& rank : entries_of(folder)) {
    const fs::path log = rank / "dllogger.json";
    std::error_code ignored;
    // Files of nodes other than the first stay empty.
    if (fs::is_regular_file(log, ignored) && fs::file_size(log, ignored) > 0) files.dlloggers.push_back(log.string());
  }
}

RunFiles files_in(const fs::path& folder) {
  RunFiles files;
  std::error_code ignored;
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    if (name == "dllogger" && fs::is_directory(path, ignored)) add_dlloggers(path, files);
    if (!fs::is_regular_file(path, ignored)) continue;
    if (name == "dllogger.json") files.dlloggers.push_back(path.string());
    if (name == "metrics.csv") files.metrics.push_back(path.string());
    if (is_event_file(path)) files.event_files.push_back(path.string());
    if (name == "hparams.yaml" || name == "recipe.yaml" || name == "hyperparameters.yaml" || name.ends_with("_hydra.yaml"))
      files.settings.push_back(path.string());
    if (name == "summary.json") files.summary = path.string();
    files.ranks = std::max(files.ranks, ranks_told_by(name));
  }
  return files;
}

// --------------------------------------------------------------------------------------------------------------- folder

// NeMo moves the files of earlier starts to run_0, run_1, ...
bool is_archive(const std::string& name) {
  return name.starts_with("run_") && name.find_first_not_of("0123456789", 4) == std::string::npos;
}

bool is_worth_a_look(const fs::path& path) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  return fs::is_directory(path, ignored) && !name.starts_with('.') && name != "checkpoints" && name != "dllogger" &&
         !is_archive(name);
}

struct FoundRun {
  fs::path folder;     // the named folder, joined with folders below it
  int64_t others = 0;  // older runs at the same depth
};

// Returns when the last record of a run was written.
fs::file_time_type time_of(const fs::path& folder) {
  const RunFiles files = files_in(folder);
  fs::file_time_type newest = fs::file_time_type::min();
  std::error_code failed;
  for (const auto* kind : {&files.dlloggers, &files.event_files, &files.metrics})
    for (const std::string& path : *kind)
      if (const fs::file_time_type time = fs::last_write_time(path, failed); !failed) newest = std::max(newest, time);
  return newest;
}

// Returns the nearest folder with a log: `top` or one below it.
std::optional<FoundRun> find_run(const fs::path& top) {
  std::vector<fs::path> level{top};
  for (int depth = 0; depth <= kDeepestFolder && !level.empty(); ++depth) {
    std::vector<fs::path> runs, below;
    for (const fs::path& folder : level) {
      if (files_in(folder).has_log()) runs.push_back(folder);
      std::ranges::copy_if(entries_of(folder), std::back_inserter(below), is_worth_a_look);
    }
    if (!runs.empty()) {
      std::ranges::stable_sort(runs, {}, time_of);  // equal times: the last by name
      return FoundRun{.folder = runs.back(), .others = static_cast<int64_t>(runs.size()) - 1};
    }
    level = std::move(below);
  }
  return std::nullopt;
}

// Returns "demo, 2026-11-15 05:39:00" for runs/demo/2026-11-15_05-39-00; nothing for a folder that is not named by a time.
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

nlohmann::json read_summary(const std::string& path) {
  nlohmann::json summary = try_parse_json(read_log_file(path));
  return summary.is_object() ? summary : nlohmann::json();
}

// Settings files are often one level above the logs: the launcher's <run>_hydra.yaml beside its results folder, LitGPT's beside
// version_0.
void add_settings_around(const fs::path& run, const fs::path& top, RunFiles& files) {
  for (fs::path folder = run; folder != top; folder = folder.parent_path())
    for (std::string& path : files_in(folder.parent_path()).settings) files.settings.push_back(std::move(path));
}

RunLog read_folder(const fs::path& top) {
  const std::optional<FoundRun> run = find_run(top);
  if (!run) throw UserError("{} holds no log of a run: no dllogger.json, no events.out.tfevents.*, no metrics.csv", top.string());
  RunFiles files = files_in(run->folder);
  add_settings_around(run->folder, top, files);

  RunLog log;
  log.name = recipe_and_time(run->folder).value_or("");
  std::string first_trouble;
  // An unreadable log is only a note if another one can be read.
  const auto take = [&](const std::function<RunLog()>& read) {
    try {
      log.complete_with(read());
    } catch (const UserError& error) {
      if (first_trouble.empty()) first_trouble = error.what();
      log.notes.emplace_back(error.what());
    }
  };
  for (const std::string& path : files.dlloggers) take([&] { return read_dllogger(path); });
  if (!files.event_files.empty()) take([&] { return read_event_files(files.event_files); });
  for (const std::string& path : files.metrics) take([&] { return read_metrics_csv(path); });
  if (log.series.empty()) throw UserError("{}", first_trouble);
  for (const std::string& path : files.settings) take([&] { return read_settings_file(path); });
  if (!files.summary.empty()) log.summary = read_summary(files.summary);
  log.ranks_seen = files.ranks;
  if (run->others > 0)
    log.notes.push_back(
        fmt::format("{} holds {} runs; this is the newest of them, {}", top.string(), run->others + 1, run->folder.string()));
  return log;
}

RunLog read_file_of_any_kind(const std::string& path) {
  const File file = File::open(path);
  std::string start(static_cast<size_t>(std::min<int64_t>(file.size(), 12)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start.data(), start.size())));
  if (looks_like_dllogger(start) || path.ends_with(".json")) return read_dllogger(path);
  if (looks_like_event_file(start) || is_event_file(path)) return read_event_files({path});
  if (path.ends_with(".csv")) return read_metrics_csv(path);
  throw UserError(
      "{} is no log that can be read: give a dllogger.json, a TensorBoard event file, a metrics.csv, or the folder of a run",
      path);
}

// ---------------------------------------------------------------------------------------------------------------- names

// Drops names that every run has: results/large/dllogger/rank-0/dllogger.json becomes "large".
std::string short_name(const std::string& given) {
  fs::path path = fs::path(given).lexically_normal();
  const auto says_nothing = [](const std::string& name) {
    return name.empty() || name == "." || name == "dllogger.json" || name == "dllogger" || name.starts_with("rank-") ||
           name == "metrics.csv" || name.starts_with("events.out.tfevents.") || name == "results";
  };
  while (path.has_parent_path() && path != path.parent_path() && says_nothing(path.filename().string()))
    path = path.parent_path();
  const std::string name = path.filename().string();
  if (const auto text = recipe_and_time(path)) return *text;
  return says_nothing(name) ? given : name;
}

}  // namespace

std::string read_log_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw UserError("{} is not there", path);
  if (!fs::is_regular_file(path, ignored)) throw UserError("{} is not a file", path);
  return read_file(path, kLargestLog);
}

RunLog read_run(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw UserError("{} is not there; give the folder of a run or one of its logs", path);
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && !fs::is_regular_file(path, ignored)) throw UserError("{} is neither a file nor a folder", path);
  // Strips a trailing slash, with which the folder would be its own parent.
  RunLog log = is_folder ? read_folder((fs::path(path) / "").parent_path()) : read_file_of_any_kind(path);
  if (log.name.empty()) log.name = short_name(path);
  return log;
}

std::vector<RunLog> read_runs(const std::vector<std::string>& paths) {
  std::vector<RunLog> logs;
  for (const std::string& path : paths) logs.push_back(read_run(path));
  const auto all_different = [&] {
    std::set<std::string> names;
    return std::ranges::all_of(logs, [&](const RunLog& log) { return names.insert(log.name).second; });
  };
  if (!all_different())
    for (size_t i = 0; i < logs.size(); ++i) logs[i].name = paths[i];
  if (!all_different())
    for (size_t i = 0; i < logs.size(); ++i) logs[i].name = fmt::format("{} ({})", paths[i], i + 1);
  return logs;
}

}  // namespace trireme
