// trireme data fetch as a library: the request, the plan, and its execution.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fetch/checksums.h"
#include "fetch/downloader.h"

namespace trireme {

struct FetchRequest {
  std::vector<std::string> urls;  // files, folders and globs
  std::filesystem::path output;
  std::vector<std::string> mirrors;  // folders with the same files under the same names
  Checksums checksums;
  std::string via = "auto";  // for s3, gs and az: "https", the name of a tool, or "auto": HTTPS if it is allowed, else a tool
  DownloadOptions download;
};

struct FetchEntry {
  std::string url;   // for messages
  std::string name;  // below the output folder
  enum class Action : uint8_t { fetch, unchanged, failed } action = Action::fetch;
  DownloadFile file;
  int64_t bytes_there = 0;  // already downloaded by an earlier run
  std::string error;        // set if it failed
};

struct FetchPlan {
  std::filesystem::path output;
  std::vector<FetchEntry> entries;

  int64_t bytes_to_fetch() const;  // over files of known size
  int64_t files_to_fetch() const;
  int64_t bytes_to_write() const;  // the same minus what is already there
};

// Queries every source and compares it with the output folder. Writes nothing.
FetchPlan plan_fetch(const FetchRequest& request);

// Failure if the files do not fit on the disk.
void require_disk_for(const FetchPlan& plan);

struct FetchedFile {
  std::string url, path;
  int64_t bytes = 0;
  std::string sha256;  // of the file fetched now
  enum class Outcome : uint8_t { fetched, unchanged, failed, stopped } outcome = Outcome::stopped;
  std::string error;
};

struct FetchReport {
  std::vector<FetchedFile> files;
  int64_t bytes_brought = 0;
  double seconds = 0;

  int64_t count(FetchedFile::Outcome outcome) const;
};

struct FetchProgress {
  int64_t bytes_done = 0, bytes_total = 0, bytes_brought = 0;
  int files_done = 0, files = 0;
  double seconds = 0;
};

FetchReport carry_out(const FetchPlan& plan, const DownloadOptions& options,
                      const std::function<void(const FetchProgress&)>& progress);

nlohmann::json to_json(const FetchPlan& plan);
nlohmann::json to_json(const FetchReport& report);

// Returns the folder itself or its nearest existing parent.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

}  // namespace trireme
