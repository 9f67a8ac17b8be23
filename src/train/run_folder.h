// The folder that holds everything of one run. It is never shared by two processes at once, and a new run never writes over an
// old one.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "config/settings.h"
#include "train/checkpoint/folder.h"

namespace trireme {

enum class Resume : uint8_t { no, yes };

inline constexpr const char* kPostMortemPrefix = "post-mortem-";

class RunFolder {
 public:
  // exp_manager.explicit_log_dir, or exp_dir/name/version, or without a version a folder of exp_dir/name: a new one, named by the
  // time or by number, or when resuming the newest one that has a checkpoint. UserError if the folder belongs to an earlier run
  // and this one does not resume. Nothing is made yet.
  static RunFolder choose(const ExpManagerSettings& settings, Resume resume);

  // The folder that another rank of this job has chosen and claimed.
  static RunFolder shared(std::filesystem::path path) { return {std::move(path), Name::given}; }

  // Makes the folder and keeps other processes out. UserError if one is in already. A new folder that another run has made since
  // it was chosen is left to that run, and the next name taken. What an earlier run without a checkpoint has left in the folder
  // moves to run_0, run_1, ... in it, as NeMo does: this one begins with the first step.
  void claim();

  // The folder that runs to resume were looked for in: this one, or that of all runs of the name.
  std::filesystem::path searched() const { return name_ == Name::generated ? path_.parent_path() : path_; }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(std::string_view name) const { return path_ / name; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path dllogger(const ExpManagerSettings& settings) const;
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path recipe() const { return path_ / "recipe.yaml"; }

 private:
  enum class Name : uint8_t { given, generated };
  RunFolder(std::filesystem::path path, Name name) : path_(std::move(path)), name_(name) {}
  static RunFolder checked(RunFolder folder, const ExpManagerSettings& settings, Resume resume);

  std::filesystem::path path_;
  Name name_;
  std::shared_ptr<void> lock_;
};

// Where to look for checkpoints when a user names a run: the run's folder, its checkpoints folder, or a folder of runs, or of
// folders of runs (the one with the newest checkpoint).
std::filesystem::path find_checkpoints(const std::filesystem::path& named);

// The checkpoint that a user names: itself, or the newest whole one of a run. `skipped` says why newer ones were passed over.
// UserError if there is none.
NewestCheckpoint open_named_checkpoint(const std::filesystem::path& named);

}  // namespace trireme
