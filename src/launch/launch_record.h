// launch.json in the folder of a launch: what was started where, so that --list, --status, --logs, --fetch and --stop find it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/launch_target.h"

namespace trireme {

struct LaunchRecord {
  std::string name;
  TargetKind target = TargetKind::local;
  std::string launched;  // local time, to the second
  std::string host, user;
  std::filesystem::path folder;
  std::vector<JobRecord> jobs;
};

void write_record(const LaunchRecord& record);  // to record.folder

// UserError if the folder has no record, or one of a newer version.
LaunchRecord read_record(const std::filesystem::path& folder);

// The launches below a results folder, oldest first.
std::vector<LaunchRecord> list_records(const std::filesystem::path& results);

// A launch by its name below `results`, or by its folder. A UserError names the launches there are.
LaunchRecord find_record(const std::filesystem::path& results, const std::string& name_or_folder);

}  // namespace trireme
