// Composes a recipe from its files: those it extends (`extends:`), those of its defaults list, and itself.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/overrides.h"
#include "config/tree.h"

namespace trireme {

struct Composition {
  Tree tree;
  std::vector<std::pair<std::string, std::string>> choices;  // group, chosen name; "null" for none
  std::vector<Override> changes;                             // the user's overrides that do not choose a file
  // A tree of the NeMo launcher: the group `training` is the recipe, the other keys are the launcher's.
  bool is_launcher_tree = false;

  std::string choice(const std::string& group) const;  // empty if there is no such group
};

// `find_shipped` returns the file of a shipped recipe, or an empty path. The user's changes may choose files: training=gpt3/5b.
Composition compose(const std::string& path, std::vector<Override> changes,
                    const std::function<std::string(const std::string&)>& find_shipped);

// Whether it exists and is not a folder; a recipe may also come from a pipe.
bool is_file(const std::filesystem::path& path);

// Whether the defaults list of this file has the group: conf/config.yaml of the NeMo launcher has `training`.
bool has_group(const std::string& path, const std::string& group);

}  // namespace trireme
