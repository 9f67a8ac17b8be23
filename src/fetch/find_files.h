// Resolves an address to files: the file itself, all files below a folder, or those that match a glob.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fetch/source.h"

namespace trireme {

struct FoundFile {
  Source source;
  std::string name;                  // its name below the output folder
  std::optional<RemoteFile> remote;  // from a listing, if there is one
};

enum class Missing : uint8_t {
  mistake,  // a path without a file is an error
  allowed,  // another source may have it
};

// UserError for an address without files. Failure if a source does not answer or has names that leave the folder.
std::vector<FoundFile> find_files(const std::string& address, const std::string& via, SourceReader& reader,
                                  Missing missing = Missing::mistake);

// Returns how to read a location that needs credentials.
Source private_source(const Location& location, const std::string& via);

}  // namespace trireme
