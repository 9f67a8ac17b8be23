// The files that model.data.data_prefix names when the data is text.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Each entry is a file, a folder (all .txt files in it and below, sorted by path), or a glob pattern (its files, sorted by path).
// Empty files in folders and patterns are left out. UserError for an entry that gives no text.
std::vector<std::string> find_text_files(const std::vector<std::string>& data_prefix);

// The whole file. UserError when it cannot be read.
std::string read_text_file(const std::string& path);

}  // namespace trireme
