#include "launch/launch_target.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "fetch/glob.h"

namespace trireme {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(200);
constexpr int64_t kChunk = 1 << 20;

// Prints what the file has from `offset` on, and returns its end. A file that is not there yet has nothing.
int64_t print_from(const std::filesystem::path& path, int64_t offset) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return offset;
  const File file = File::open(path);
  std::vector<std::byte> bytes;
  for (int64_t left = file.size() - offset; left > 0; left = file.size() - offset) {
    bytes.resize(static_cast<size_t>(std::min(left, kChunk)));
    file.read_at(offset, bytes);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    offset += static_cast<int64_t>(bytes.size());
  }
  std::fflush(stdout);
  return offset;
}

bool has_ended(JobPhase phase) { return phase == JobPhase::done || phase == JobPhase::failed || phase == JobPhase::stopped; }

}  // namespace

std::string name_of(JobPhase phase) {
  constexpr const char* kNames[] = {"waiting", "running", "done", "failed", "stopped", "unknown"};
  return kNames[static_cast<size_t>(phase)];
}

std::filesystem::path LaunchTarget::log_file(const JobRecord& job, std::optional<int64_t> rank) {
  return job.folder / (rank ? fmt::format("rank-{:05}.log", *rank) : "log.txt");
}

void LaunchTarget::show_log(const JobRecord& job, const LogRequest& request) {
  const std::filesystem::path path = log_file(job, request.rank);
  if (!request.follow && !std::filesystem::exists(path)) throw UserError("{} has no log {} yet", job.name, path.string());
  int64_t offset = 0;
  for (bool ended = !request.follow;;) {
    offset = print_from(path, offset);
    if (ended) return;
    ended = has_ended(status(job).phase);
    if (!ended) std::this_thread::sleep_for(kPollInterval);
  }
}

int64_t LaunchTarget::fetch_files(const std::filesystem::path& folder, const std::string& glob, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  int64_t copied = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path name = entry.path().lexically_relative(folder);
    if (!entry.is_regular_file() || (!glob_matches(glob, name.string()) && !glob_matches(glob, name.filename().string())))
      continue;
    create_folders((to / name).parent_path());
    fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
    ++copied;
  }
  return copied;
}

}  // namespace trireme
