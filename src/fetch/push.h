// trireme data push as a library: uploads files to a store or copies them to a folder, if they are missing there or differ.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fetch/fetch.h"

namespace trireme {

struct PushRequest {
  std::vector<std::string> paths;  // files, folders (recursive) and globs
  std::string destination;         // s3://bucket/prefix, gs://..., az://account/container/prefix, or a folder
  std::string via = "auto";        // the tool to use
  DownloadOptions transfer;
};

struct PushEntry {
  std::string path;
  Location to;
  int64_t bytes = 0;
  enum class Action : uint8_t { push, unchanged } action = Action::push;
};

struct PushPlan {
  StoreTool tool;
  std::vector<PushEntry> entries;
  int64_t bytes_to_push() const;
};

// Lists the store and compares. A file is the same if the size is equal and the store's copy is not older.
PushPlan plan_push(const PushRequest& request);

FetchReport carry_out(const PushPlan& plan, const DownloadOptions& options,
                      const std::function<void(const FetchProgress&)>& progress);

nlohmann::json to_json(const PushPlan& plan);

// Returns the request as a fetch, for a destination folder on this machine.
FetchRequest as_fetch(const PushRequest& request, const Location& folder);

}  // namespace trireme
