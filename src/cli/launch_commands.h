// The parts of trireme launch.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "launch/launch_file.h"
#include "launch/launch_target.h"

namespace trireme {

// How a launch is made, beside what it is.
struct LaunchArguments {
  LaunchRequest request;
  std::string site, save;
  bool repeats = false;  // a launch file, whose name gets the next free number
  bool dry_run = false, no_submit = false, detach = false, wait = false, json = false;
};

// Plans, checks, submits and, unless told otherwise, follows the jobs. Returns the exit status.
int launch(LaunchArguments arguments);

struct ManageArguments {
  std::string status, logs, fetch, stop;  // the launch that each is about
  bool list = false, follow = false, json = false;
  std::string results, glob;
  std::optional<int64_t> rank;

  bool is_given() const { return list || !status.empty() || !logs.empty() || !fetch.empty() || !stop.empty(); }
};

// --list, --status, --logs, --fetch and --stop.
int manage_launches(const ManageArguments& arguments);

// The target of a launch that exists, with the options it was launched with.
std::unique_ptr<LaunchTarget> make_target(const LaunchRequest& request);

struct LaunchPlan;
// Prints the figures of a sweep's runs, the fastest first, and draws them on one page in the folder of the launch.
void compare_sweep(const LaunchPlan& plan);

// Waits for the jobs, prints the log of the training, and returns its exit status.
int follow_jobs(LaunchTarget& target, const std::vector<JobRecord>& jobs);

}  // namespace trireme
