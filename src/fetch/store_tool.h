// The command-line tools for private buckets: s5cmd, aws, gcloud, azcopy. They use the user's credentials. They are started with
// argument lists, never through a shell.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "fetch/listing.h"
#include "fetch/location.h"

namespace trireme {

struct StoreTool {
  enum class Kind : uint8_t { s5cmd, aws, gcloud, azcopy };
  Kind kind = Kind::aws;
  std::string program;  // path of the executable
};

const char* name_of(StoreTool::Kind kind);

// Returns the installed tool for this store, in the order above; `wanted` is "auto" or a tool's name. Failure if there is none.
StoreTool find_store_tool(const Location& store, const std::string& wanted);
// Returns whether `wanted` is "auto" or the name of a tool.
bool is_store_tool(const std::string& wanted);

// Each waits for the tool. Failure with the tool's last line if it fails.
std::vector<RemoteObject> list_objects(const StoreTool& tool, const Location& prefix, const std::atomic<bool>* stop);
void download(const StoreTool& tool, const Location& from, const std::string& to, const std::atomic<bool>* stop);
void upload(const StoreTool& tool, const std::string& from, const Location& to, const std::atomic<bool>* stop);

// Parses the tools' listings.
std::vector<RemoteObject> parse_tool_listing(StoreTool::Kind kind, const std::string& output, const Location& prefix);

}  // namespace trireme
