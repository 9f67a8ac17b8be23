#include "serve/run_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "report/quantities.h"
#include "report/readers.h"
#include "serve/log_tail.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;
constexpr int64_t kQuietAfterSeconds = 120;
constexpr size_t kPeeked = size_t{1} << 14;
constexpr auto kSettled = std::chrono::seconds(3);  // file systems keep times of that resolution

struct LogStatus {
  int64_t modified = 0, bytes = 0;
};

LogStatus status_of(const RunFiles& files) {
  LogStatus all;
  for (const auto* kind : {&files.dlloggers, &files.event_files, &files.metrics})
    for (const std::string& path : *kind) {
      struct stat status {};
      if (::stat(path.c_str(), &status) != 0) continue;
      all.modified = std::max<int64_t>(all.modified, status.st_mtime);
      all.bytes += status.st_size;
    }
  return all;
}

// The last step and loss, from the end of a log that can be read there.
void peek(const RunFiles& files, RunEntry& entry) {
  RunLog log;
  try {
    if (!files.dlloggers.empty()) {
      const auto parser = dllogger_parser(Timestamps::left_out);
      for (const std::string& line : last_lines(files.dlloggers.front(), 20, kPeeked)) parser->read(line + "\n");
      log.series = parser->series.take();
    } else if (files.event_files.empty() && !files.metrics.empty()) {
      const auto parser = csv_parser(files.metrics.front());
      const std::string start = read_part(files.metrics.front(), 0, kPeeked);
      const size_t header = start.find('\n');
      if (header == start.npos) return;
      parser->read(std::string_view(start).substr(0, header + 1));
      for (const std::string& line : last_lines(files.metrics.front(), 20, kPeeked)) parser->read(line + "\n");
      log.series = parser->series.take();
    }
  } catch (const UserError&) {
    return;  // whoever opens the run is told
  }
  const std::optional<Series> loss = find_quantity(log, {}, Quantity::loss);
  if (!loss || loss->points.empty()) return;
  entry.steps_done = loss->points.back().step + 1;
  entry.loss = loss->points.back().value;
}

std::string id_of(const std::string& name) {
  Sha256 sum;
  sum.add(bytes_of(name));
  return sum.finish().substr(0, 12);
}

std::string name_below(const fs::path& root, const fs::path& folder) {
  fs::path name = folder.lexically_relative(root);
  if (name == ".") return as_utf8(recipe_and_time(folder).value_or(fs::absolute(folder).filename().string()));
  if (name.filename() == "results" && name.has_parent_path()) name = name.parent_path();
  return as_utf8(name.string());
}

}  // namespace

const char* name_of(RunStatus state) {
  static constexpr const char* kNames[] = {"running", "quiet", "finished", "stopped", "failed"};
  return kNames[static_cast<size_t>(state)];
}

std::optional<RunStatus> ending_of(const fs::path& run_folder) {
  std::optional<RunStatus> state;
  for (const std::string& line : last_lines((run_folder / "joblog.log").string(), 8, 4096)) {
    if (line.starts_with("STARTED=")) state.reset();
    if (!line.starts_with("STATUS=")) continue;
    const std::string_view status = std::string_view(line).substr(7);
    state = status == "finished" ? RunStatus::finished : status == "failed" ? RunStatus::failed : RunStatus::stopped;
  }
  return state;
}

RunIndex::RunIndex(fs::path root) : root_(fs::canonical(root)) {}

void RunIndex::scan(const std::atomic<bool>& stop) {
  ++scans_;
  std::error_code failed;
  is_root_there_ = fs::is_directory(root_, failed);
  visit(root_, 0, stop);
  if (stop) return;
  drop_vanished();
  is_complete_ = true;
}

void RunIndex::visit(const fs::path& path, int depth, const std::atomic<bool>& stop) {
  if (stop || depth > kDeepest) return;
  std::error_code failed;
  const fs::file_time_type modified = fs::last_write_time(path, failed);
  if (failed) return;
  Folder& folder = folders_[path];
  if (folder.last_seen == scans_) return;  // a link led here before
  const bool is_new = std::exchange(folder.last_seen, scans_) == 0;
  if (is_new || folder.modified != modified) {
    read_folder(path, folder);
    // A change within the resolution of the file system's clock could be missed later.
    const bool is_settled = fs::file_time_type::clock::now() - modified > kSettled;
    folder.modified = is_settled ? modified : fs::file_time_type::min();
  }
  if (folder.run) refresh_run(folder);
  for (const fs::path& below : folder.below) visit(below, depth + 1, stop);
}

void RunIndex::read_folder(const fs::path& path, Folder& folder) {
  folder.below.clear();
  std::error_code failed;
  const std::vector<fs::path> entries = entries_of(path);
  for (const fs::path& entry : entries) {
    if (!may_hold_runs(entry)) continue;
    const fs::path below = fs::is_symlink(entry, failed) ? fs::canonical(entry, failed) : entry;  // a link may lead to itself
    if (!failed) folder.below.push_back(below);
  }
  RunFiles files = files_among(entries);
  folder.settings = files.settings;
  if (!files.has_log()) return;
  if (!folder.run)
    folder.run = RunEntry{
        .id = id_of(path.lexically_relative(root_).string()), .name = name_below(root_, path), .folder = path, .files = {}};
  for (fs::path above = path; above != root_ && above.has_relative_path();) {
    above = above.parent_path();
    if (const auto known = folders_.find(above); known != folders_.end())
      files.settings.insert(files.settings.end(), known->second.settings.begin(), known->second.settings.end());
  }
  folder.run->files = std::move(files);
}

void RunIndex::refresh_run(Folder& folder) {
  RunEntry& run = *folder.run;
  const int64_t now = std::time(nullptr);
  // dllogger/rank-0/dllogger.json is empty at first, and its folder does not tell when that changes.
  if (run.version > 0 && now - run.modified < kQuietAfterSeconds) read_folder(run.folder, folder);
  const LogStatus log = status_of(run.files);
  if (log.modified == 0) {  // its logs are gone, its folder is not
    if (!std::exchange(run.is_gone, true)) publish(run);
    return;
  }
  const bool is_same_log = run.version > 0 && run.log_bytes == log.bytes && run.modified == log.modified && !run.is_gone;
  const RunStatus before = run.state;
  if (!is_same_log || run.state == RunStatus::running) {
    const RunStatus otherwise = now - log.modified < kQuietAfterSeconds ? RunStatus::running : RunStatus::quiet;
    run.state = ending_of(run.folder).value_or(otherwise);
  }
  if (is_same_log && run.state == before) return;
  run.modified = log.modified;
  run.log_bytes = log.bytes;
  run.is_gone = false;
  if (!is_same_log) peek(run.files, run);
  publish(run);
}

void RunIndex::publish(RunEntry& run) {
  const std::lock_guard lock(mutex_);
  run.version = ++version_;
  runs_[run.id] = run;
}

void RunIndex::drop_vanished() {
  for (auto& [path, folder] : folders_) {
    if (folder.last_seen == scans_ || !folder.run) continue;
    folder.run->is_gone = true;
    publish(*folder.run);
  }
  std::erase_if(folders_, [&](const auto& folder) { return folder.second.last_seen != scans_; });
}

int64_t RunIndex::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

std::vector<RunEntry> RunIndex::changed_since(int64_t version) const {
  const std::lock_guard lock(mutex_);
  std::vector<RunEntry> changed;
  for (const auto& [id, run] : runs_)
    if (run.version > version) changed.push_back(run);
  return changed;
}

std::optional<RunEntry> RunIndex::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  return found == runs_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace trireme
