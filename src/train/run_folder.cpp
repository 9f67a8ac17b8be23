#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "telemetry/goodput.h"
#include "train/checkpoint/folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_checkpoint(const fs::path& run) { return !checkpoint_steps(run / "checkpoints").empty(); }

// A folder that a run has been in, whatever became of that run.
bool holds_a_run(const fs::path& folder) {
  constexpr std::array kTraces{"summary.json", "recipe.yaml", "cmd-args.log"};
  return has_checkpoint(folder) || std::ranges::any_of(kTraces, [&](const char* name) { return fs::exists(folder / name); });
}

constexpr std::string_view kVersionPrefix = "version_";

// The number of version_12; -1 for other names.
int64_t version_number(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int64_t number = -1;
  if (name.starts_with(kVersionPrefix)) std::from_chars(name.data() + kVersionPrefix.size(), name.data() + name.size(), number);
  return number;
}

// Folders named by number sort by it, those named by time by name.
std::vector<fs::path> runs_newest_first(const fs::path& parent) {
  std::vector<fs::path> runs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.is_directory(ignored)) runs.push_back(entry.path());
  std::ranges::sort(runs, std::greater{}, [](const fs::path& run) { return std::pair(version_number(run), run); });
  return runs;
}

std::string time_name() {
  std::string name;
  append_local_time(name, system_clock().unix_microseconds());
  name.resize(19);  // to the second
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), ':', '-');
  return name;
}

fs::path next_version(const fs::path& parent) {
  int64_t newest = -1;
  for (const fs::path& run : runs_newest_first(parent)) newest = std::max(newest, version_number(run));
  return parent / fmt::format("{}{}", kVersionPrefix, newest + 1);
}

fs::path next_free(const fs::path& path) {
  if (version_number(path) >= 0) return next_version(path.parent_path());
  const std::string name = path.filename().string();
  fs::path free;
  for (int i = 2; free.empty() || fs::exists(free); ++i) free = path.parent_path() / fmt::format("{}_{}", name, i);
  return free;
}

bool is_archive(const std::string& name) {
  constexpr std::string_view kPrefix = "run_";
  return name.starts_with(kPrefix) && name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

bool is_of_all_attempts(const std::string& name) { return name == kGoodputName || name.starts_with(kPostMortemPrefix); }

void archive_earlier_run(const fs::path& folder) {
  fs::path archive;
  for (int i = 0; archive.empty() || fs::exists(archive); ++i) archive = folder / fmt::format("run_{}", i);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string();
        name != ".lock" && name != "checkpoints" && !is_archive(name) && !is_of_all_attempts(name))
      files.push_back(entry.path());
  std::error_code error;
  create_folders(archive);
  for (const fs::path& file : files) {
    fs::rename(file, archive / file.filename(), error);
    if (error) throw Failure("cannot move {} of an earlier run to {}: {}", file.string(), archive.string(), error.message());
  }
}

// When the newest checkpoint below a folder of a run was written; the earliest time there is if it has none.
fs::file_time_type newest_checkpoint_time(const fs::path& run) {
  const std::vector<int64_t> steps = checkpoint_steps(run / "checkpoints");
  std::error_code ignored;
  return steps.empty() ? fs::file_time_type::min()
                       : fs::last_write_time(run / "checkpoints" / checkpoint_name(steps.back()), ignored);
}

}  // namespace

RunFolder RunFolder::choose(const ExpManagerSettings& settings, Resume resume) {
  const fs::path parent = fs::path(settings.exp_dir) / settings.name;
  const bool is_explicit = !settings.explicit_log_dir.empty();
  if (is_explicit || !settings.version.empty()) {
    fs::path path = is_explicit ? fs::path(settings.explicit_log_dir) : parent / settings.version;
    if (resume == Resume::no && holds_a_run(path))
      throw UserError("{} holds an earlier run; continue it (--resume) or choose another exp_manager.{}", path.string(),
                      is_explicit ? "explicit_log_dir" : "version");
    return checked({std::move(path), Name::given}, settings, resume);
  }
  if (resume == Resume::yes)
    for (const fs::path& run : runs_newest_first(parent))
      if (has_checkpoint(run)) return {run, Name::given};
  RunFolder fresh(settings.use_datetime_version ? parent / time_name() : next_version(parent), Name::generated);
  return checked(std::move(fresh), settings, Resume::no);
}

// A DLLogger file outside the folder may be that of another run. In a folder that another run makes meanwhile there may be one
// too; then claim() takes the next name.
RunFolder RunFolder::checked(RunFolder folder, const ExpManagerSettings& settings, Resume resume) {
  const fs::path file = folder.dllogger(settings);
  const bool is_inside = *file.lexically_relative(folder.path_).begin() != "..";
  if (is_inside && folder.name_ == Name::generated) return folder;
  if (resume == Resume::no && settings.create_dllogger_logger && fs::exists(file))
    throw UserError("exp_manager.dllogger_logger_kwargs.json_file={} is there already; choose another", file.string());
  return folder;
}

void RunFolder::claim() {
  if (name_ == Name::generated) {
    create_folders(path_.parent_path());
    std::error_code error;
    while (!fs::create_directory(path_, error) && !error) path_ = next_free(path_);
    if (error) throw Failure("cannot create the folder {}: {}", path_.string(), error.message());
    name_ = Name::given;
  }
  create_folders(path_);
  const fs::path lock = path_ / ".lock";
  const int descriptor = ::open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (descriptor < 0) throw Failure("cannot write to the run folder {}", path_.string());
  lock_ = std::shared_ptr<void>(nullptr, [descriptor](void*) { ::close(descriptor); });
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    throw UserError("{} is in use by another process; wait for it or choose another folder", path_.string());
  if (holds_a_run(path_) && !has_checkpoint(path_)) archive_earlier_run(path_);
}

// NeMo's own default for the file is ./dllogger.json, which its launchers then replace by the path of the rank.
fs::path RunFolder::dllogger(const ExpManagerSettings& settings) const {
  const fs::path file = fs::path(settings.dllogger_json_file).lexically_normal();
  if (file.empty() || file == "dllogger.json") return path_ / "dllogger" / "rank-0" / "dllogger.json";
  return path_ / file;
}

fs::path find_checkpoints(const fs::path& named) {
  if (!fs::is_directory(named)) throw UserError("{} is not the folder of a run", named.string());
  if (step_of(named.filename().string())) return named.parent_path();
  if (!checkpoint_steps(named).empty()) return named;
  if (has_checkpoint(named)) return named / "checkpoints";
  // A folder of runs, or of such folders: runs/demo, or runs.
  std::vector<fs::path> runs = runs_newest_first(named);
  for (const fs::path& group : runs_newest_first(named)) std::ranges::copy(runs_newest_first(group), std::back_inserter(runs));
  std::erase_if(runs, [](const fs::path& run) { return !has_checkpoint(run); });
  if (runs.empty()) throw UserError("no checkpoint in {}, nor in the runs below it", named.string());
  return *std::ranges::max_element(runs, {}, newest_checkpoint_time) / "checkpoints";
}

NewestCheckpoint open_named_checkpoint(const fs::path& named) {
  const fs::path folder = named.filename().empty() ? named.parent_path() : named;  // a slash at the end is no other name
  if (step_of(folder.filename().string())) {
    if (!fs::is_directory(folder)) throw UserError("there is no checkpoint {}", folder.string());
    return {.checkpoint = open_checkpoint(folder), .skipped = {}};
  }
  NewestCheckpoint newest = find_latest(find_checkpoints(folder));
  if (!newest.checkpoint) throw UserError("no checkpoint in {}", named.string());
  return newest;
}

}  // namespace trireme
