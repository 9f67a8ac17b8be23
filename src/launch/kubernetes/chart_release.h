// A job as a release of the chart: what helm is told, and what it would make of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/job.h"
#include "launch/kubernetes/cluster.h"
#include "launch/launch_options.h"

namespace trireme {

struct ChartRelease {
  std::filesystem::path values_file;   // in the folder of the job
  std::string values;                  // its text
  std::vector<std::string> arguments;  // of helm install and helm template, after the name: the chart and all values
};

ChartRelease chart_release(const Job& job, const std::vector<Job>& all, const LaunchOptions& options,
                           const std::filesystem::path& chart);

// The manifests, from helm template. UserError with helm's reason if values are wrong.
std::string render(const Job& job, const ChartRelease& release, const std::string& name_space);

// Helm's complaint in one line, without where in the templates it arose.
std::string helm_complaint(const std::string& errors);

// The pod that reads the volumes of a release whose files are in `folder`.
std::string render_reader(const Release& release, const std::filesystem::path& folder, const LaunchOptions& options);

}  // namespace trireme
