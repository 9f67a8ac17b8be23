// Resolves model.data.data_prefix to files if the data is text.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Each entry is a file, a folder (all .txt files in and below it, sorted by path) or a glob pattern (its files, sorted by path).
// Empty files of folders and patterns are left out. UserError for an entry without text.
std::vector<std::string> find_text_files(const std::vector<std::string>& data_prefix);

// Returns the whole file. UserError if it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace trireme
