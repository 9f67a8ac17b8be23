// helm and kubectl, as programs: where they are, which cluster and namespace they talk to, and what they answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace trireme {

// A release of a job, as launch.json keeps it: RELEASE@NAMESPACE@CONTEXT.
struct Release {
  std::string name, name_space, context;
};
std::string id_of(const Release& release);
Release parse_release(const std::string& id);  // Failure for something else

struct ClusterAccess {
  std::string context, name_space;
  std::string problem;  // why the cluster cannot be used; empty: it answers
};

// The context and namespace that are given, or else those of the kubeconfig; asks the cluster whether it is there. Never waits
// long.
ClusterAccess find_cluster(const std::string& context, const std::string& name_space);

// One command each, for this cluster and namespace.
std::vector<std::string> helm_command(const Release& release, std::vector<std::string> words);
std::vector<std::string> kubectl_command(const Release& release, std::vector<std::string> words);

// As run_command(), but stops the program after some seconds with status 124.
CommandOutput run_with_limit(const std::vector<std::string>& command, int64_t seconds);

// Returns what kubectl prints as JSON; nothing if the object is not there. Failure with kubectl's line if it cannot be asked.
std::optional<nlohmann::json> kubectl_json(const Release& release, std::vector<std::string> words);

// Runs a command that prints to our stdout, and returns its exit status.
int run_attached(const std::vector<std::string>& command);

std::string last_line(const std::string& text);  // of what a program complains

// The folder of the chart: the one given, or the one shipped beside the recipes. UserError if there is none.
std::filesystem::path find_chart(const std::string& given);

}  // namespace trireme
