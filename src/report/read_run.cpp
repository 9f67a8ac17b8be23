#include "report/read_run.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "report/readers.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestLog = int64_t{4} << 30;
constexpr int kDeepestFolder = 4;

// --------------------------------------------------------------------------------------------------------------- folder

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

// Returns the nearest folder with a log: `top` or one below it. Its name is empty unless the folder has a telling one.
RunPlace find_in_folder(const fs::path& top) {
  std::vector<fs::path> level{top};
  for (int depth = 0; depth <= kDeepestFolder && !level.empty(); ++depth) {
    std::vector<fs::path> runs, below;
    for (const fs::path& folder : level) {
      if (files_in(folder).has_log()) runs.push_back(folder);
      std::ranges::copy_if(entries_of(folder), std::back_inserter(below), may_hold_runs);
    }
    if (!runs.empty()) {
      std::ranges::stable_sort(runs, {}, time_of);  // equal times: the last by name
      RunPlace place{.name = recipe_and_time(runs.back()).value_or(""),
                     .folder = runs.back(),
                     .files = files_in(runs.back()),
                     .older_runs = std::ssize(runs) - 1};
      add_settings_around(place.folder, top, place.files);
      return place;
    }
    level = std::move(below);
  }
  throw UserError("{} holds no log of a run: no dllogger.json, no events.out.tfevents.*, no metrics.csv", top.string());
}

RunPlace place_of_file(const std::string& path) {
  RunPlace place{.name = {}, .folder = fs::path(path).parent_path(), .files = {}};
  const File file = File::open(path);
  std::string start(static_cast<size_t>(std::min<int64_t>(file.size(), 12)), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start.data(), start.size())));
  if (looks_like_dllogger(start) || path.ends_with(".json"))
    place.files.dlloggers = {path};
  else if (looks_like_event_file(start) || is_event_file(path))
    place.files.event_files = {path};
  else if (path.ends_with(".csv"))
    place.files.metrics = {path};
  else
    throw UserError(
        "{} is no log that can be read: give a dllogger.json, a TensorBoard event file, a metrics.csv, or the folder of a run",
        path);
  return place;
}

RunLog read_place(const RunPlace& place, const std::string& top) {
  const RunFiles& files = place.files;
  RunLog log;
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
  if (!files.summary.empty()) log.summary = read_summary_file(files.summary);
  if (!files.goodput.empty()) {
    const std::vector<RunAttempt> attempts = read_attempts_of_run(files.goodput);
    if (!attempts.empty()) {
      log.time = account_of(attempts);
      log.files.push_back(files.goodput);
    }
  }
  log.ranks_seen = files.ranks;
  if (place.older_runs > 0)
    log.notes.push_back(
        fmt::format("{} holds {} runs; this is the newest of them, {}", top, place.older_runs + 1, place.folder.string()));
  return log;
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

RunPlace find_run(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw UserError("{} is not there; give the folder of a run or one of its logs", path);
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && !fs::is_regular_file(path, ignored)) throw UserError("{} is neither a file nor a folder", path);
  // Strips a trailing slash, with which the folder would be its own parent.
  RunPlace place = is_folder ? find_in_folder((fs::path(path) / "").parent_path()) : place_of_file(path);
  if (place.name.empty()) place.name = short_name(path);
  return place;
}

RunLog read_run(const std::string& path) {
  const RunPlace place = find_run(path);
  RunLog log = read_place(place, path);
  log.name = place.name;
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
