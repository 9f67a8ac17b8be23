// A file being downloaded: which source is used, which parts are assigned, and how failures are handled.
//
// take, done and failed are called one at a time, under the lock of the Downloader. run is called without the lock, concurrently.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fetch/downloader.h"
#include "fetch/partial_file.h"
#include "fetch/transfer_error.h"

namespace trireme {

class DownloadItem {
 public:
  DownloadItem(DownloadFile file, const DownloadOptions& options);

  struct Job {
    enum class Kind : uint8_t { open, chunk, finish };
    Kind kind = Kind::open;
    size_t chunk = 0;
    int64_t epoch = 0;
    size_t source = 0;
    int64_t generation = 0;  // of the partial file
  };
  std::optional<Job> take(double now);  // no value: nothing can be done now
  void run(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought);
  void done(const Job& job);
  void failed(const Job& job, const TransferError& error, double now);

  bool ended() const { return stage_ == Stage::ended; }
  PartialFile* to_save() const { return stage_ == Stage::transferring ? partial_.get() : nullptr; }
  int64_t bytes_done() const;
  const DownloadResult& result() const { return result_; }

 private:
  enum class Stage : uint8_t { to_open, opening, transferring, finishing, ended };
  struct Part {
    enum class State : uint8_t { pending, taken, done } state = State::pending;
    int failures = 0;  // since it last received bytes
    double not_before = 0;
    int64_t reached = 0;  // bytes reached at the last failure
  };

  Job job(Job::Kind kind, size_t chunk = 0) const { return {kind, chunk, epoch_, source_, generation_}; }
  void open(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought);
  void transfer(const Job& job, SourceReader& reader, const std::function<void(int64_t)>& brought);
  void finish();

  void reopen(PartialFile::Resume resume);
  void retry_later(Part& part, double wait, double now) const;
  void next_source(const std::string& reason);

  const DownloadFile file_;
  const DownloadOptions options_;
  Stage stage_ = Stage::to_open;
  int64_t epoch_ = 0;  // jobs of an earlier epoch are ignored
  size_t source_ = 0;
  bool probed_;  // file_.remote describes the current source
  bool whole_file_ = false;
  int restarts_ = 0;
  bool resumed_by_checksum_ = false;  // only the size shows that the earlier bytes are of this file
  PartialFile::Resume resume_ = PartialFile::Resume::same_file;
  Part opening_;
  std::vector<Part> parts_;
  std::unique_ptr<PartialFile> partial_;
  int64_t generation_ = 0;
  std::vector<std::string> reasons_;
  DownloadResult result_;
};

}  // namespace trireme
