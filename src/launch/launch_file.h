// A launch as a file, so that benchmarks live in git, and the site file with what all launches of a cluster share.
//
//   launch: 1                       # version of this format
//   target: slurm
//   recipe: gpt3/175b
//   overrides: [trainer.max_steps=40]
//   nodes: 16
//   image: /images/trireme.sqsh
//
// A site file has options only: partition, account, image, mounts, env, before, after, ...
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/given_options.h"

namespace trireme {

struct LaunchRequest {
  TargetKind target = TargetKind::local;
  std::string recipe;
  std::vector<std::string> overrides;
  GivenOptions options;
};

// The value that overrides give to a key of a recipe, the last one if several do; nothing if none does.
std::optional<std::string> overridden_text(const std::vector<std::string>& overrides, const std::string& key);
std::optional<int64_t> overridden_count(const std::vector<std::string>& overrides, const std::string& key);

// UserError for unknown keys, values that do not fit and a newer version. A recipe that is a file is found from the folder of the
// launch file.
LaunchRequest read_launch_file(const std::string& path);
// The text of a launch file in `folder`, from where it names a recipe that is a file.
std::string write_launch_file(const LaunchRequest& request, const std::filesystem::path& folder);

// The options of a site file. Also takes the names of the NeMo launcher's config.yaml and cluster/bcm.yaml: container,
// container_mounts, env_vars, base_results_dir, data_dir, numa_mapping, srun_args.
GivenOptions read_site_file(const std::string& path);
// The same names in the launcher's settings of a recipe tree. Keys that request nothing, or something else, are left out.
GivenOptions read_launcher_settings(const Tree& settings);

// The site file to use: the one named, else TRIREME_SITE, else ~/.config/trireme/site.yaml if it is there; empty: none.
std::string find_site_file(const std::string& named);

std::optional<TargetKind> find_target(std::string_view name);

// UserError for an option that this target does not have; it would be left out silently.
void require_for_target(const GivenOptions& options, TargetKind target);

}  // namespace trireme
