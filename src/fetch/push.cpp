#include "fetch/push.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/start_threads.h"
#include "fetch/find_files.h"

namespace trireme {
namespace {

constexpr auto kProgressEvery = std::chrono::milliseconds(100);

struct LocalFile {
  std::string path, name;
  RemoteFile file;
};

std::vector<LocalFile> find_local_files(const PushRequest& request) {
  SourceReader reader{HttpLimits{}};
  std::map<std::string, std::string> by_name;
  std::vector<LocalFile> files;
  for (const std::string& path : request.paths) {
    if (parse_location(path).scheme != Scheme::file) throw UserError("{}: only files of this machine can be pushed", path);
    for (const FoundFile& found : find_files(path, "auto", reader)) {
      const std::string& place = found.source.location.path;
      const auto [other, is_new] = by_name.emplace(found.name, place);
      if (!is_new) throw UserError("{} and {} would both be pushed as {}", other->second, place, found.name);
      files.push_back({place, found.name, local_file(place)});
    }
  }
  return files;
}

bool is_same(const RemoteFile& local, const RemoteObject& remote) {
  return local.size == remote.size && (!remote.modified || *remote.modified >= *local.modified);
}

// Uploads entries until none is left; several threads run it concurrently.
class Uploader {
 public:
  Uploader(const PushPlan& plan, const DownloadOptions& options, FetchReport& report)
      : plan_(plan), options_(options), report_(report) {}

  void work() {
    for (size_t i = next_++; i < plan_.entries.size(); i = next_++) {
      const PushEntry& entry = plan_.entries[i];
      FetchedFile& file = report_.files[i];
      if (entry.action == PushEntry::Action::unchanged || stopped()) continue;
      try {
        upload(plan_.tool, entry.path, entry.to, options_.stop);
        file.outcome = FetchedFile::Outcome::fetched;
        bytes_ += entry.bytes;
      } catch (const Failure& error) {
        file.outcome = stopped() ? FetchedFile::Outcome::stopped : FetchedFile::Outcome::failed;
        file.error = error.what();
      }
      ++files_;
    }
    --working_;
  }
  void stop() { next_ = plan_.entries.size(); }  // no new upload is started

  std::atomic<int> working_{0}, files_{0};
  std::atomic<int64_t> bytes_{0};

 private:
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  const PushPlan& plan_;
  const DownloadOptions& options_;
  FetchReport& report_;
  std::atomic<size_t> next_{0};
};

}  // namespace

int64_t PushPlan::bytes_to_push() const {
  int64_t bytes = 0;
  for (const PushEntry& entry : entries)
    if (entry.action == PushEntry::Action::push) bytes += entry.bytes;
  return bytes;
}

PushPlan plan_push(const PushRequest& request) {
  const Location destination = parse_location(request.destination);
  if (!is_store(destination)) throw UserError("{}: cannot be pushed to; use s3://, gs://, az:// or a folder", shown(destination));
  const std::vector<LocalFile> files = find_local_files(request);
  PushPlan plan{.tool = find_store_tool(destination, request.via), .entries = {}};
  const Location folder =
      destination.path.empty() || destination.path.ends_with('/') ? destination : with_path(destination, destination.path + "/");
  std::map<std::string, RemoteObject> there;
  for (RemoteObject& object : list_objects(plan.tool, folder, request.transfer.stop)) {
    std::string key = object.key;
    there.emplace(std::move(key), std::move(object));
  }
  for (const LocalFile& file : files) {
    PushEntry& entry = plan.entries.emplace_back(PushEntry{file.path, inside(folder, file.name), file.file.size});
    const auto found = there.find(entry.to.path);
    if (found != there.end() && is_same(file.file, found->second)) entry.action = PushEntry::Action::unchanged;
  }
  return plan;
}

FetchReport carry_out(const PushPlan& plan, const DownloadOptions& options,
                      const std::function<void(const FetchProgress&)>& progress) {
  FetchReport report;
  FetchProgress now{.bytes_total = plan.bytes_to_push()};
  for (const PushEntry& entry : plan.entries) {
    const bool unchanged = entry.action == PushEntry::Action::unchanged;
    report.files.push_back({.url = shown(entry.to),
                            .path = entry.path,
                            .bytes = entry.bytes,
                            .outcome = unchanged ? FetchedFile::Outcome::unchanged : FetchedFile::Outcome::stopped});
    now.files += unchanged ? 0 : 1;
  }
  const Stopwatch watch;
  Uploader uploader(plan, options, report);
  uploader.working_ = options.parallel;
  {
    std::vector<std::jthread> threads;
    start_threads(
        threads, options.parallel, [&](int64_t) { uploader.work(); }, [&] { uploader.stop(); });
    for (bool working = true; working;) {
      std::this_thread::sleep_for(kProgressEvery);
      working = uploader.working_ > 0;
      now.bytes_done = now.bytes_brought = uploader.bytes_;
      now.files_done = uploader.files_;
      now.seconds = watch.seconds();
      progress(now);
    }
  }
  report.bytes_brought = uploader.bytes_;
  report.seconds = watch.seconds();
  return report;
}

nlohmann::json to_json(const PushPlan& plan) {
  nlohmann::json files = nlohmann::json::array();
  for (const PushEntry& entry : plan.entries)
    files.push_back({{"path", entry.path},
                     {"url", shown(entry.to)},
                     {"bytes", entry.bytes},
                     {"action", entry.action == PushEntry::Action::push ? "push" : "unchanged"}});
  return {{"tool", name_of(plan.tool.kind)}, {"files", files}, {"bytes_to_push", plan.bytes_to_push()}};
}

FetchRequest as_fetch(const PushRequest& request, const Location& folder) {
  return {
      .urls = request.paths, .output = folder.path, .mirrors = {}, .checksums = {}, .via = "auto", .download = request.transfer};
}

}  // namespace trireme
