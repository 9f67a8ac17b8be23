// What the NeMo launcher's own settings request. conf/config.yaml has them beside the recipe: which stages run, on which cluster,
// with which environment. This program does not follow them, so a run reports them, and a recipe that requests no training does
// not train.
#pragma once

#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

struct LauncherRequest {
  std::string no_training;                // why there is nothing to train, and what to change; empty if training is requested
  std::vector<std::string> stages;        // the other requested stages
  std::vector<std::string> not_followed;  // its other settings that request something: cluster, env_vars.NCCL_DEBUG

  // One line that names both; empty without any.
  std::string text() const;
};

// `cluster` is the file chosen for that group; empty or null: none.
LauncherRequest read_launcher_request(const Tree& settings, const std::string& cluster);

// Whether the request covers this key of a recipe.
bool is_launcher_key(std::string_view key);

}  // namespace trireme
