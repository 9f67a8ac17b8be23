// trireme data fetch as a library: what is asked for, what that comes to, and doing it.
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
  std::vector<std::string> mirrors;  // folders that have the same files under the same names
  Checksums checksums;
  std::string via = "auto";  // for s3, gs and az: "https", the name of a tool, or "auto": HTTPS where it is allowed, else a tool
  DownloadOptions download;
};

struct FetchEntry {
  std::string url;   // for people
  std::string name;  // below the output folder
  enum class Action : uint8_t { fetch, unchanged, failed } action = Action::fetch;
  DownloadFile file;
  int64_t bytes_there = 0;  // of it, from an earlier run
  std::string error;        // of failed
};

struct FetchPlan {
  std::filesystem::path output;
  std::vector<FetchEntry> entries;

  int64_t bytes_to_fetch() const;  // of files whose size is known
  int64_t files_to_fetch() const;
  int64_t bytes_to_write() const;  // the same less what is there
};

// Asks every place what it has and compares that with the output folder. Writes nothing.
FetchPlan plan_fetch(const FetchRequest& request);

// Failure if the files do not fit on the disk.
void require_disk_for(const FetchPlan& plan);

struct FetchedFile {
  std::string url, path;
  int64_t bytes = 0;
  std::string sha256;  // of what was fetched now
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

// The folder itself, or the nearest one above it that exists.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

}  // namespace trireme
