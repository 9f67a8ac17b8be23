#include "fetch/downloader.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/start_threads.h"
#include "fetch/download_item.h"

namespace trireme {
namespace {

constexpr auto kIdle = std::chrono::milliseconds(20);      // polling interval of a thread without work
constexpr auto kRefresh = std::chrono::milliseconds(100);  // interval of progress updates
constexpr double kSaveSeconds = 2;                         // at most this much work is lost by a kill

DownloadOptions with_stop(DownloadOptions options, const std::atomic<bool>& stop) {
  options.stop = &stop;
  return options;
}

}  // namespace

Downloader::Downloader(std::vector<DownloadFile> files, const DownloadOptions& options) : options_(options) {
  CHECK(options.parallel > 0 && options.chunk_bytes > 0);
  items_.reserve(files.size());
  for (DownloadFile& file : files) items_.push_back(std::make_unique<DownloadItem>(std::move(file), with_stop(options, stop_)));
}

Downloader::~Downloader() = default;

std::vector<DownloadResult> Downloader::run(const std::function<void()>& progress) {
  std::vector<std::jthread> threads;
  working_ = options_.parallel;
  start_threads(
      threads, options_.parallel, [this](int64_t) { work(); }, [this] { stop_ = true; });
  double saved_at = system_clock().seconds();
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kRefresh, [&] { return working_ == 0; });
    const bool finished = working_ == 0;
    lock.unlock();
    if (options_.stop != nullptr && *options_.stop) stop_ = true;
    progress();
    if (finished) break;
    if (system_clock().seconds() - saved_at >= kSaveSeconds) {
      save_all();
      saved_at = system_clock().seconds();
    }
  }
  threads.clear();
  save_all();
  if (fatal_) std::rethrow_exception(fatal_);
  std::vector<DownloadResult> results;
  results.reserve(items_.size());
  for (const auto& item : items_) results.push_back(item->result());
  return results;
}

void Downloader::work() {
  try {
    SourceReader reader({.timeout_seconds = options_.timeout_seconds, .stop = &stop_});
    while (work_once(reader)) continue;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!fatal_) fatal_ = std::current_exception();
    stop_ = true;
  }
  const std::lock_guard lock(mutex_);
  if (--working_ == 0) changed_.notify_all();
}

bool Downloader::work_once(SourceReader& reader) {
  std::unique_lock lock(mutex_);
  if (stop_) return false;
  DownloadItem* item = nullptr;
  std::optional<DownloadItem::Job> job;
  for (const auto& candidate : items_) {
    if (!(job = candidate->take(system_clock().seconds()))) continue;
    item = candidate.get();
    break;
  }
  if (!job) {
    if (std::ranges::all_of(items_, [](const auto& each) { return each->ended(); })) return false;
    changed_.wait_for(lock, kIdle);
    return true;
  }
  lock.unlock();
  try {
    item->run(*job, reader, [this](int64_t bytes) { bytes_brought_ += bytes; });
    lock.lock();
    item->done(*job);
  } catch (const TransferError& error) {
    if (!lock.owns_lock()) lock.lock();
    item->failed(*job, error, system_clock().seconds());
  }
  changed_.notify_all();
  return true;
}

// Saving waits for the disk, so it is done without the lock. A file that finished meanwhile saves nothing.
void Downloader::save_all() {
  std::vector<PartialFile*> files;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& item : items_)
      if (PartialFile* file = item->to_save()) files.push_back(file);
  }
  for (PartialFile* file : files) file->save();
}

int64_t Downloader::bytes_done() {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& item : items_) bytes += item->bytes_done();
  return bytes;
}

int Downloader::files_ended() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(items_, [](const auto& item) { return item->ended(); }));
}

}  // namespace trireme
