// The programs that people use with private buckets: s5cmd, aws, gcloud, azcopy. They find the user's credentials; we give them
// plain lists of arguments, never a shell line.
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
  std::string program;  // its file
};

const char* name_of(StoreTool::Kind kind);

// The installed one for this store, in the order above; `wanted` is "auto" or one of their names. Failure if there is none.
StoreTool find_store_tool(const Location& store, const std::string& wanted);
// Whether `wanted` could be one: "auto", or the name of a tool.
bool is_store_tool(const std::string& wanted);

// Each waits for the tool and throws a Failure with the last line it said if it fails.
std::vector<RemoteObject> list_objects(const StoreTool& tool, const Location& prefix, const std::atomic<bool>* stop);
void download(const StoreTool& tool, const Location& from, const std::string& to, const std::atomic<bool>* stop);
void upload(const StoreTool& tool, const std::string& from, const Location& to, const std::atomic<bool>* stop);

// What the tools print for a list.
std::vector<RemoteObject> parse_tool_listing(StoreTool::Kind kind, const std::string& output, const Location& prefix);

}  // namespace trireme
