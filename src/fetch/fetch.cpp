#include "fetch/fetch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "fetch/find_files.h"
#include "fetch/transfer_error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

HttpLimits limits_of(const DownloadOptions& options) {
  return {.timeout_seconds = options.timeout_seconds, .connect_seconds = options.reach_seconds, .stop = options.stop};
}

std::optional<RemoteFile> file_there(const fs::path& path) {
  try {
    return local_file(path.string());
  } catch (const TransferError&) {
    return std::nullopt;
  }
}

// A checksum decides if there is one. Otherwise a file of the same size that is not older than the source is the same, as in wget
// and aws.
bool is_same(const fs::path& target, const RemoteFile& remote, const std::string& sha256) {
  const auto there = file_there(target);
  if (!there) return false;
  if (!sha256.empty()) return sha256_of_file(target.string()) == sha256;
  return remote.size == there->size && (!remote.modified || *there->modified >= *remote.modified);
}

// Returns the disk space of the file, which is less than its size while parts are missing.
int64_t bytes_of_partial(const fs::path& target) {
  std::error_code failed;
  const fs::path path = target.string() + ".partial";
  const auto size = fs::file_size(path, failed);
  return failed ? 0 : narrow<int64_t>(size);
}

// Hosts that did not answer. Each is reported once and never waited for again.
class UnreachableHosts {
 public:
  void require_reachable(const Location& location) {
    const std::lock_guard lock(mutex_);
    if (const auto found = hosts_.find(location.root); found != hosts_.end())
      throw TransferError(Remedy::other_source, found->second);
  }
  [[noreturn]] void give_up(const Location& location, const char* reason) {
    const std::lock_guard lock(mutex_);
    const auto text = fmt::format("cannot reach {}: {}", shown(with_path(location, "")), reason);
    throw TransferError(Remedy::other_source, hosts_.emplace(location.root, text).first->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> hosts_;  // root -> message
};

RemoteFile probe_patiently(const Location& location, SourceReader& reader, const DownloadOptions& options,
                           UnreachableHosts& hosts) {
  const Stopwatch since_start;
  for (int failures = 0;; ++failures) {
    hosts.require_reachable(location);
    try {
      return reader.probe(location);
    } catch (const TransferError& error) {
      const double wait = std::min(options.backoff_seconds * std::exp2(failures), 30.0);
      if (error.remedy == Remedy::unreachable) {
        if (since_start.seconds() + wait >= options.reach_seconds || failures >= options.retries)
          hosts.give_up(location, error.what());
      } else if (error.remedy != Remedy::retry || failures >= options.retries) {
        throw;
      }
      const Stopwatch watch;
      while (watch.seconds() < wait && !(options.stop != nullptr && *options.stop))
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (options.stop != nullptr && *options.stop) throw TransferError(Remedy::none, "stopped");
    }
  }
}

RemoteFile probe_through_tool(const Source& source, const DownloadOptions& options) {
  for (const RemoteObject& object : list_objects(*source.tool, source.location, options.stop))
    if (object.key == source.location.path)
      return {.size = object.size, .identity = "", .modified = object.modified, .ranges = false};
  throw TransferError(Remedy::other_source, "there is no such object");
}

RemoteFile probe_source(Source& source, const std::string& via, SourceReader& reader, const DownloadOptions& options,
                        UnreachableHosts& hosts) {
  try {
    if (!source.tool) return probe_patiently(source.location, reader, options, hosts);
  } catch (const TransferError& error) {
    if (error.remedy != Remedy::credentials || !is_store(source.location) || via == "https") throw;
    source = private_source(source.location, via);
  }
  return probe_through_tool(source, options);
}

// Moves the first source that has the file to the front of its sources.
void probe_entry(FetchEntry& entry, const FetchRequest& request, SourceReader& reader, UnreachableHosts& hosts) {
  DownloadFile& file = entry.file;
  if (!file.sha256.empty() && is_same(file.target, {}, file.sha256)) {
    entry.action = FetchEntry::Action::unchanged;
    file.remote = *file_there(file.target);
    return;
  }
  std::vector<std::string> reasons;
  while (!file.sources.empty() && file.remote.size < 0) {
    try {
      file.remote = probe_source(file.sources.front(), request.via, reader, request.download, hosts);
      break;
    } catch (const Failure& error) {
      const std::string text = error.what(), place = shown(file.sources.front().location);
      const bool names_place = text.starts_with(place) || text.starts_with("cannot reach");
      reasons.push_back(names_place ? text : fmt::format("{}: {}", place, text));
      file.sources.erase(file.sources.begin());
    }
  }
  if (file.sources.empty()) {
    entry.action = FetchEntry::Action::failed;
    entry.error = fmt::format("{}", fmt::join(reasons, "; "));
  } else if (file.sha256.empty() && is_same(file.target, file.remote, "")) {
    entry.action = FetchEntry::Action::unchanged;
  } else {
    entry.bytes_there =
        file.sources.front().tool ? 0 : std::min(bytes_of_partial(file.target), std::max<int64_t>(file.remote.size, 0));
  }
}

void require_folder(const fs::path& output) {
  std::error_code failed;
  if (fs::exists(output, failed) && !fs::is_directory(output, failed))
    throw UserError("--output {}: is a file; expected a folder", output.string());
}

std::vector<FetchEntry> find_entries(const FetchRequest& request) {
  SourceReader reader(limits_of(request.download));
  std::vector<Location> mirrors;
  for (const std::string& mirror : request.mirrors) mirrors.push_back(parse_location(mirror));
  std::vector<FetchEntry> entries;
  std::map<std::string, std::string> places;  // by name
  const Missing missing = mirrors.empty() ? Missing::mistake : Missing::allowed;
  for (const std::string& url : request.urls) {
    for (FoundFile& found : find_files(url, request.via, reader, missing)) {
      FetchEntry entry{.url = shown(found.source.location), .name = found.name};
      const auto [other, is_new] = places.emplace(found.name, entry.url);
      if (!is_new)
        throw UserError("{} and {} would both be written to {}", other->second, entry.url,
                        (request.output / found.name).string());
      entry.file = {
          request.output / found.name, {found.source}, found.remote.value_or(RemoteFile{}), request.checksums.of(found.name)};
      std::error_code failed;
      if (fs::is_directory(entry.file.target, failed))
        throw UserError("{}: is a folder; {} cannot be written there", entry.file.target.string(), entry.url);
      for (const Location& mirror : mirrors) entry.file.sources.push_back({inside(mirror, found.name), {}});
      entries.push_back(std::move(entry));
    }
  }
  if (request.checksums.for_one_file() && entries.size() != 1)
    throw UserError("--sha256: one checksum is given for {} files; give a file with a line for each", entries.size());
  return entries;
}

}  // namespace

fs::path existing_folder(const fs::path& folder) {
  std::error_code failed;
  fs::path existing = fs::absolute(folder);
  while (!fs::is_directory(existing, failed) && existing.has_relative_path()) existing = existing.parent_path();
  return existing;
}

FetchPlan plan_fetch(const FetchRequest& request) {
  require_folder(request.output);
  FetchPlan plan{.output = request.output, .entries = find_entries(request)};
  ThreadPool pool(std::min(request.download.parallel, std::max(static_cast<int>(plan.entries.size()), 1)));
  std::vector<SourceReader> readers;
  readers.reserve(static_cast<size_t>(pool.size()));
  for (int i = 0; i < pool.size(); ++i) readers.emplace_back(limits_of(request.download));
  UnreachableHosts hosts;
  pool.run_on_threads(narrow<int64_t>(plan.entries.size()), [&](int64_t i, int thread) {
    probe_entry(plan.entries[static_cast<size_t>(i)], request, readers[static_cast<size_t>(thread)], hosts);
  });
  return plan;
}

int64_t FetchPlan::bytes_to_fetch() const {
  int64_t bytes = 0;
  for (const FetchEntry& entry : entries)
    if (entry.action == FetchEntry::Action::fetch) bytes += std::max<int64_t>(entry.file.remote.size, 0);
  return bytes;
}

int64_t FetchPlan::files_to_fetch() const { return std::ranges::count(entries, FetchEntry::Action::fetch, &FetchEntry::action); }

int64_t FetchPlan::bytes_to_write() const {
  int64_t bytes = bytes_to_fetch();
  for (const FetchEntry& entry : entries)
    if (entry.action == FetchEntry::Action::fetch) bytes -= entry.bytes_there;
  return bytes;
}

void require_disk_for(const FetchPlan& plan) {
  require_free_space(existing_folder(plan.output), plan.bytes_to_write(),
                     fmt::format("cannot fetch {} files", plan.files_to_fetch()));
}

FetchReport carry_out(const FetchPlan& plan, const DownloadOptions& options,
                      const std::function<void(const FetchProgress&)>& progress) {
  require_disk_for(plan);
  create_folders(plan.output);
  std::vector<DownloadFile> files;
  for (const FetchEntry& entry : plan.entries)
    if (entry.action == FetchEntry::Action::fetch) files.push_back(entry.file);
  const Stopwatch watch;
  FetchProgress now{.bytes_total = plan.bytes_to_fetch(), .files = static_cast<int>(files.size())};
  Downloader downloader(std::move(files), options);
  const std::vector<DownloadResult> results = downloader.run([&] {
    now.bytes_done = downloader.bytes_done();
    now.bytes_brought = downloader.bytes_brought();
    now.files_done = downloader.files_ended();
    now.seconds = watch.seconds();
    progress(now);
  });
  FetchReport report{.files = {}, .bytes_brought = downloader.bytes_brought(), .seconds = watch.seconds()};
  auto result = results.begin();
  for (const FetchEntry& entry : plan.entries) {
    FetchedFile& file = report.files.emplace_back(FetchedFile{.url = entry.url, .path = entry.file.target.string()});
    using Outcome = FetchedFile::Outcome;
    if (entry.action != FetchEntry::Action::fetch) {
      file.outcome = entry.action == FetchEntry::Action::unchanged ? Outcome::unchanged : Outcome::failed;
      file.bytes = std::max<int64_t>(entry.file.remote.size, 0);
      file.error = entry.error;
      continue;
    }
    const DownloadResult& done = *result++;
    file.outcome = done.outcome == DownloadResult::Outcome::done     ? Outcome::fetched
                   : done.outcome == DownloadResult::Outcome::failed ? Outcome::failed
                                                                     : Outcome::stopped;
    file.bytes = done.bytes;
    file.sha256 = done.sha256;
    file.error = done.error;
    if (file.outcome == Outcome::fetched) file.url = done.source;
  }
  return report;
}

int64_t FetchReport::count(FetchedFile::Outcome outcome) const {
  return std::ranges::count(files, outcome, &FetchedFile::outcome);
}

nlohmann::json to_json(const FetchPlan& plan) {
  nlohmann::json files = nlohmann::json::array();
  for (const FetchEntry& entry : plan.entries) {
    static constexpr std::array kActions{"fetch", "unchanged", "failed"};
    nlohmann::json& file = files.emplace_back(nlohmann::json{{"url", entry.url},
                                                             {"path", entry.file.target.string()},
                                                             {"bytes", nullptr},
                                                             {"bytes_there", entry.bytes_there},
                                                             {"action", kActions[static_cast<size_t>(entry.action)]}});
    if (entry.file.remote.size >= 0) file["bytes"] = entry.file.remote.size;
    if (!entry.error.empty()) file["error"] = entry.error;
  }
  return {{"output", plan.output.string()},
          {"files", files},
          {"bytes_to_fetch", plan.bytes_to_fetch()},
          {"bytes_to_write", plan.bytes_to_write()},
          {"bytes_free", free_bytes(existing_folder(plan.output))}};
}

nlohmann::json to_json(const FetchReport& report) {
  nlohmann::json files = nlohmann::json::array();
  for (const FetchedFile& entry : report.files) {
    static constexpr std::array kOutcomes{"fetched", "unchanged", "failed", "stopped"};
    nlohmann::json& file = files.emplace_back(nlohmann::json{{"url", entry.url},
                                                             {"path", entry.path},
                                                             {"bytes", entry.bytes},
                                                             {"outcome", kOutcomes[static_cast<size_t>(entry.outcome)]}});
    if (!entry.sha256.empty()) file["sha256"] = entry.sha256;
    if (!entry.error.empty()) file["error"] = entry.error;
  }
  return {{"files", files}, {"bytes_brought", report.bytes_brought}, {"seconds", report.seconds}};
}

}  // namespace trireme
