// Downloads several files concurrently, and large files in several parts concurrently. Each thread takes the next available part
// in file order, so one large file gets all connections, and many small files share them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fetch/source.h"

namespace trireme {

struct DownloadOptions {
  int parallel = 4;                         // concurrent parts
  int64_t chunk_bytes = 64 << 20;           // bytes per part
  int retries = 5;                          // failures of a part without progress before its source is given up
  double backoff_seconds = 0.5;             // before the first retry; doubles with each retry
  double timeout_seconds = 30;              // to connect, and the longest time without a byte
  double reach_seconds = 5;                 // before the downloads: how long a host without an answer is tried
  const std::atomic<bool>* stop = nullptr;  // stops the downloads after saving everything
};

struct DownloadFile {
  std::filesystem::path target;
  std::vector<Source> sources;  // sources of the same file, in the order to try them
  RemoteFile remote;            // at the first source, as far as it is known
  std::string sha256;           // expected checksum; empty: any
};

struct DownloadResult {
  enum class Outcome : uint8_t { done, failed, stopped };
  Outcome outcome = Outcome::stopped;
  int64_t bytes = 0;  // size of the file
  std::string sha256;
  std::string source;  // its source, for messages
  std::string error;   // every source tried and its error, in one line
};

class DownloadItem;

class Downloader {
 public:
  Downloader(std::vector<DownloadFile> files, const DownloadOptions& options);
  ~Downloader();

  // Calls `progress` several times per second on this thread. Failure for an error that affects all files, such as a full disk.
  std::vector<DownloadResult> run(const std::function<void()>& progress);

  // For `progress`. The first includes what an earlier run downloaded of unfinished files; the second does not.
  int64_t bytes_done();
  int64_t bytes_brought() const { return bytes_brought_; }
  int files_ended();

 private:
  void work();
  bool work_once(SourceReader& reader);  // false: no work is left
  void save_all();

  const DownloadOptions options_;
  std::vector<std::unique_ptr<DownloadItem>> items_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int64_t> bytes_brought_{0};
  int working_ = 0;
  std::exception_ptr fatal_;
  std::atomic<bool> stop_{false};  // set by options_.stop or by a Failure
};

}  // namespace trireme
