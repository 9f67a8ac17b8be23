// Small YAML files that are shipped and found like recipes: hardware/NAME.yaml, profiles/NAME.yaml, networks/NAME.yaml.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// A catalogue is a folder beside the shipped recipes: "hardware", "hardware/gpus", "profiles", "networks".
std::vector<std::filesystem::path> catalogue_folders(const std::string& catalogue);  // those that exist, in search order
std::vector<std::string> catalogue_names(const std::string& catalogue);

// The file of a shipped name, or the path that the user gave. `option` is what the user typed before the name: "--cluster". A
// UserError lists the shipped names.
std::filesystem::path find_in_catalogue(const std::string& catalogue, const std::string& name_or_path, const std::string& option);

}  // namespace trireme
