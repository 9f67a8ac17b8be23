// Reads any run that a user can name: a folder or one of the logs in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/run_files.h"
#include "report/run_log.h"

namespace trireme {

// `path` is a dllogger.json, a TensorBoard event file, a metrics.csv, or a folder with some of them: a run of ours, the results
// folder of the NeMo launcher, LitGPT's out/version_0, or a folder of several runs, of which the newest is read. Values that the
// first kind of log lacks are taken from the next. UserError if there is no log.
RunLog read_run(const std::string& path);

// Where read_run finds the logs that it reads.
struct RunPlace {
  std::string name;
  std::filesystem::path folder;  // of the logs
  RunFiles files;                // with the settings around it
  int64_t older_runs = 0;        // in the named folder, beside this one
};
RunPlace find_run(const std::string& path);

// read_run for each path; the names of the runs are made unique.
std::vector<RunLog> read_runs(const std::vector<std::string>& paths);

}  // namespace trireme
