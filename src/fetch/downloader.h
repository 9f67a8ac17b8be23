// Brings files, several at once, and large ones in several parts at once. Each thread takes the next part that is to be had, in
// the order of the files, so that one large file gets all connections and many small files share them.
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
  int parallel = 4;                         // parts at once
  int64_t chunk_bytes = 64 << 20;           // of one part
  int retries = 5;                          // of a part that brings nothing, before its place is given up
  double backoff_seconds = 0.5;             // before the first retry; twice as long before each one after it
  double timeout_seconds = 30;              // to connect, and the longest time without a byte
  double reach_seconds = 5;                 // beforehand: how long a host is tried that nothing is heard of
  const std::atomic<bool>* stop = nullptr;  // ends what is going on, with everything saved
};

struct DownloadFile {
  std::filesystem::path target;
  std::vector<Source> sources;  // the same file at several places, in the order to try them
  RemoteFile remote;            // at the first of them, as far as it is known
  std::string sha256;           // that it must have; empty: any
};

struct DownloadResult {
  enum class Outcome : uint8_t { done, failed, stopped };
  Outcome outcome = Outcome::stopped;
  int64_t bytes = 0;  // of the file
  std::string sha256;
  std::string source;  // where it came from, for people
  std::string error;   // every place that was tried and what was wrong, in one line
};

class DownloadItem;

class Downloader {
 public:
  Downloader(std::vector<DownloadFile> files, const DownloadOptions& options);
  ~Downloader();

  // Calls `progress` several times a second on this thread. What concerns all files, such as a full disk, is a Failure.
  std::vector<DownloadResult> run(const std::function<void()>& progress);

  // For `progress`. What an earlier run brought of unfinished files counts in the first, not in the second.
  int64_t bytes_done();
  int64_t bytes_brought() const { return bytes_brought_; }
  int files_ended();

 private:
  void work();
  bool work_once(SourceReader& reader);  // false: there is nothing more to do
  void save_all();

  const DownloadOptions options_;
  std::vector<std::unique_ptr<DownloadItem>> items_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int64_t> bytes_brought_{0};
  int working_ = 0;
  std::exception_ptr fatal_;
  std::atomic<bool> stop_{false};  // as options_.stop, or because of a Failure
};

}  // namespace trireme
