// What the NeMo launcher's own settings ask for. conf/config.yaml has them next to the recipe: which stages run, on which
// cluster, with which environment. Nothing here acts on them, so a run says so, and a recipe that asks for no training does not
// train.
#pragma once

#include <string>
#include <vector>

#include "config/tree.h"

namespace trireme {

struct LauncherRequest {
  std::string no_training;                // why nothing is to be trained, and what to change; empty if training is asked for
  std::vector<std::string> stages;        // the other stages it asks for
  std::vector<std::string> not_followed;  // its other settings that are not at rest: cluster, env_vars.NCCL_DEBUG

  // One line that names both; empty if there are none.
  std::string text() const;
};

// `cluster` is the file chosen for that group; empty or null: none.
LauncherRequest read_launcher_request(const Tree& settings, const std::string& cluster);

// Whether the request covers this key of a recipe.
bool is_launcher_key(std::string_view key);

}  // namespace trireme
