// trireme data push as a library: files of this machine to a store or another folder, those that are missing there or different.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fetch/fetch.h"

namespace trireme {

struct PushRequest {
  std::vector<std::string> paths;  // files, folders (all below them) and globs
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

// For a store: lists what it has and compares. A file is the same if its size is and the store's copy is not older.
PushPlan plan_push(const PushRequest& request);

FetchReport carry_out(const PushPlan& plan, const DownloadOptions& options,
                      const std::function<void(const FetchProgress&)>& progress);

nlohmann::json to_json(const PushPlan& plan);

// The request as a fetch, for a destination that is a folder of this machine.
FetchRequest as_fetch(const PushRequest& request, const Location& folder);

}  // namespace trireme
