// Which files an address means: itself, all below a folder, or those that match a glob.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fetch/source.h"

namespace trireme {

struct FoundFile {
  Source source;
  std::string name;                  // how it should be called below the output folder
  std::optional<RemoteFile> remote;  // what a list said about it
};

enum class Missing : uint8_t {
  mistake,  // a path where nothing is
  allowed,  // it may be at another place
};

// UserError for an address that means nothing; Failure for a place that does not answer, or names that lead out of the folder.
std::vector<FoundFile> find_files(const std::string& address, const std::string& via, SourceReader& reader,
                                  Missing missing = Missing::mistake);

// How to read a place that wants credentials.
Source private_source(const Location& location, const std::string& via);

}  // namespace trireme
