#include "config/launcher_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace trireme {

namespace {

constexpr std::string_view kRun = "run_", kStages = "stages", kTrainingStage = "training";
constexpr std::array<std::string_view, 7> kSettings = {"cluster",  "cluster_type", "container",    "container_mounts",
                                                       "env_vars", "numa_mapping", "enable_vboost"};

// Whether the value requests nothing: null, false, or only such values.
bool is_at_rest(const Tree& value) {
  if (value.is_list()) return std::ranges::all_of(value.list(), is_at_rest);
  if (value.is_map()) return std::ranges::all_of(value.map(), [](const Tree::Entry& entry) { return is_at_rest(entry.value); });
  return value.is_null() || (value.kind() == Tree::Kind::boolean && !value.boolean());
}

bool is_false(const Tree& value) {
  return (value.kind() == Tree::Kind::boolean && !value.boolean()) ||
         (value.kind() == Tree::Kind::integer && value.integer() == 0);
}

// 22.06 has one switch per stage, run_training; later launchers have a list, stages.
void read_switch(const Tree::Entry& entry, LauncherRequest& request) {
  const std::string stage = entry.key.substr(kRun.size());
  if (stage != kTrainingStage) {
    if (!entry.value.is_null() && !is_false(entry.value)) request.stages.push_back(stage);
  } else if (is_false(entry.value)) {
    request.no_training = fmt::format("{}={}: the recipe asks for no training; use {}=true{}", entry.key, entry.value.brief(),
                                      entry.key, entry.value.where_suffix());
  }
}

void read_stages(const Tree& stages, LauncherRequest& request) {
  if (stages.is_null()) return;
  bool trains = stages.text() == kTrainingStage;
  if (stages.is_list())
    for (const Tree& stage : stages.list()) {
      if (stage.text() == kTrainingStage)
        trains = true;
      else if (!stage.is_null())
        request.stages.push_back(stage.text());
    }
  if (!trains)
    request.no_training =
        fmt::format("stages={}: the recipe asks for no training; use stages=[training]{}", stages.brief(), stages.where_suffix());
}

}  // namespace

std::string LauncherRequest::text() const {
  std::vector<std::string> parts = not_followed;
  if (!stages.empty()) parts.insert(parts.begin(), fmt::format("stages {}", fmt::join(stages, ", ")));
  return parts.empty() ? std::string{} : fmt::format("launcher settings not followed here: {}", fmt::join(parts, "; "));
}

LauncherRequest read_launcher_request(const Tree& settings, const std::string& cluster) {
  LauncherRequest request;
  if (!cluster.empty() && cluster != "null") request.not_followed.push_back("cluster " + cluster);
  if (!settings.is_map()) return request;
  for (const Tree::Entry& entry : settings.map()) {
    if (entry.key.starts_with(kRun)) read_switch(entry, request);
    if (entry.key == kStages) read_stages(entry.value, request);
    const bool is_setting = std::ranges::find(kSettings, entry.key) != kSettings.end();
    if (!is_setting || is_at_rest(entry.value) || (entry.key == "cluster_type" && !cluster.empty())) continue;
    if (entry.key != "env_vars" || !entry.value.is_map()) {
      if (entry.key != "cluster" || cluster.empty()) request.not_followed.push_back(entry.key);
      continue;
    }
    std::vector<std::string> names;
    for (const Tree::Entry& variable : entry.value.map())
      if (!is_at_rest(variable.value)) names.push_back(variable.key);
    request.not_followed.push_back(fmt::format("env_vars {}", fmt::join(names, ", ")));
  }
  return request;
}

bool is_launcher_key(std::string_view key) {
  const std::string_view first = split_path(key).key;
  return first.starts_with(kRun) || first == kStages || std::ranges::find(kSettings, first) != kSettings.end();
}

}  // namespace trireme
