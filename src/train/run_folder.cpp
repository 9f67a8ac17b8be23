#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "train/checkpoint_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_checkpoint(const fs::path& run) { return !checkpoint_steps(run / "checkpoints").empty(); }

// Folders named by time sort by age.
std::vector<fs::path> runs_newest_first(const fs::path& parent) {
  std::vector<fs::path> runs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.is_directory(ignored)) runs.push_back(entry.path());
  std::sort(runs.rbegin(), runs.rend());
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

fs::path new_run(const fs::path& parent) {
  const std::string name = time_name();
  fs::path path = parent / name;
  for (int i = 2; fs::exists(path); ++i) path = parent / fmt::format("{}_{}", name, i);
  return path;
}

fs::path choose_path(const ExpManagerSettings& settings, Resume resume) {
  if (!settings.explicit_log_dir.empty()) {
    fs::path path = settings.explicit_log_dir;
    if (resume == Resume::no && (has_checkpoint(path) || fs::exists(path / "summary.json")))
      throw UserError("{} holds an earlier run; go on with it (--resume) or choose another exp_manager.explicit_log_dir",
                      path.string());
    return path;
  }
  const fs::path parent = fs::path(settings.exp_dir) / settings.name;
  if (resume == Resume::yes)
    for (const fs::path& run : runs_newest_first(parent))
      if (has_checkpoint(run)) return run;
  return new_run(parent);
}

}  // namespace

RunFolder RunFolder::choose(const ExpManagerSettings& settings, Resume resume) {
  return RunFolder(choose_path(settings, resume));
}

void RunFolder::claim() {
  create_folders(path_);
  const fs::path lock = path_ / ".lock";
  const int descriptor = ::open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (descriptor < 0) throw Failure("cannot write to the run folder {}", path_.string());
  lock_ = std::shared_ptr<void>(nullptr, [descriptor](void*) { ::close(descriptor); });
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    throw UserError("{} is in use by another process; wait for it or choose another folder", path_.string());
}

fs::path find_checkpoints(const fs::path& named) {
  if (!fs::is_directory(named)) throw UserError("{} is not the folder of a run", named.string());
  if (step_of(named.filename().string())) return named.parent_path();
  if (!checkpoint_steps(named).empty()) return named;
  if (has_checkpoint(named)) return named / "checkpoints";
  for (const fs::path& run : runs_newest_first(named))
    if (has_checkpoint(run)) return run / "checkpoints";
  throw UserError("no checkpoint in {}", named.string());
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
