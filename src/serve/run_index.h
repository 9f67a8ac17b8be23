// The runs below a folder, found again and again while somebody looks. Folders that did not change are not read again.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/run_files.h"

namespace trireme {

enum class RunStatus : uint8_t { running, quiet, finished, stopped, failed };
const char* name_of(RunStatus state);

struct RunEntry {
  std::string id;    // of the path below the root; the same whenever the server starts again
  std::string name;  // that path, without parts that say nothing
  std::filesystem::path folder;
  RunFiles files;
  int64_t modified = 0;  // unix seconds of the last record
  int64_t log_bytes = 0;
  RunStatus state = RunStatus::quiet;
  std::optional<int64_t> steps_done;
  std::optional<double> loss;
  int64_t version = 0;   // of the index when it last changed
  bool is_gone = false;  // its folder has vanished
};

class RunIndex {
 public:
  explicit RunIndex(std::filesystem::path root);

  // Looks for new, changed and vanished runs. Called by one thread.
  void scan(const std::atomic<bool>& stop);

  int64_t version() const;
  bool is_complete() const { return is_complete_; }  // whether one scan went to its end
  bool is_root_there() const { return is_root_there_; }
  std::vector<RunEntry> changed_since(int64_t version) const;
  std::optional<RunEntry> find(const std::string& id) const;

 private:
  struct Folder {
    std::filesystem::file_time_type modified = std::filesystem::file_time_type::min();
    std::vector<std::filesystem::path> below;
    std::vector<std::string> settings;  // files in it, which runs below it have too
    std::optional<RunEntry> run;        // as it was published
    int64_t last_seen = 0;              // the scan that saw it
  };

  void visit(const std::filesystem::path& path, int depth, const std::atomic<bool>& stop);
  void read_folder(const std::filesystem::path& path, Folder& folder);
  void refresh_run(Folder& folder);
  void publish(RunEntry& run);
  void drop_vanished();

  const std::filesystem::path root_;
  std::map<std::filesystem::path, Folder> folders_;  // of the scanning thread
  int64_t scans_ = 0;
  std::atomic<bool> is_complete_ = false, is_root_there_ = true;

  mutable std::mutex mutex_;
  std::map<std::string, RunEntry> runs_;  // by id
  int64_t version_ = 0;
};

// How the run ended by its joblog.log; nothing for a run that has not, or of another program.
std::optional<RunStatus> ending_of(const std::filesystem::path& run_folder);

}  // namespace trireme
