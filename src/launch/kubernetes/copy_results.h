// Copies the folder of a run to where its user wants it, while the run goes on: trireme launch copy-results. The pods of the
// chart charts/trireme run their training under it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

struct CopyResults {
  std::string from, to;              // folders; one of them may be in a store: s3://bucket/folder
  int64_t seconds = 300;             // between copies
  std::vector<std::string> command;  // empty: copies once
};

// Copies files that are missing in `to` or older there, those that were written last at the end: a checkpoint's manifest follows
// its shards. A file that is in the way is replaced at once, never half. Returns how many.
int64_t copy_changed_files(const std::filesystem::path& from, const std::filesystem::path& to);

// Runs the command, copies every few seconds and when it has ended, however it ended. SIGTERM, SIGINT, SIGHUP and SIGUSR2 are
// passed on. Returns its exit status; kFailed if it succeeded and the last copy did not.
int copy_results(const CopyResults& request);

}  // namespace trireme
