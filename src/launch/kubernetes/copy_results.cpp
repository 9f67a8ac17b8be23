#include "launch/kubernetes/copy_results.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "fetch/fetch.h"
#include "fetch/push.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(100);
constexpr std::string_view kUnfinished = ".partial";
constexpr std::array kPassedOn = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};

struct ChangedFile {
  fs::path name;  // below the folder
  fs::file_time_type written;
};

bool is_changed(const fs::directory_entry& entry, const fs::path& copy) {
  std::error_code missing;
  const auto size = fs::file_size(copy, missing);
  if (missing || size != entry.file_size()) return true;
  const auto written = fs::last_write_time(copy, missing);
  return missing || written < entry.last_write_time();
}

std::vector<ChangedFile> changed_files(const fs::path& from, const fs::path& to) {
  std::vector<ChangedFile> files;
  std::error_code failed;
  fs::recursive_directory_iterator entries(from, failed), end;
  for (; !failed && entries != end; entries.increment(failed)) {
    const fs::path name = entries->path().lexically_relative(from);
    std::error_code gone;  // files may vanish while they are listed
    if (!entries->is_regular_file(gone) || name.string().ends_with(kUnfinished)) continue;
    try {
      if (is_changed(*entries, to / name)) files.push_back({name, entries->last_write_time()});
    } catch (const fs::filesystem_error&) {
      continue;
    }
  }
  std::ranges::stable_sort(files, {}, [](const ChangedFile& file) { return std::pair(file.written, file.name); });
  return files;
}

// Returns whether the file was still there.
bool copy_one(const fs::path& from, const fs::path& to) {
  create_folders(to.parent_path());
  const fs::path unfinished = fmt::format("{}.{}{}", to.string(), ::getpid(), kUnfinished);
  std::error_code failed;
  fs::copy_file(from, unfinished, fs::copy_options::overwrite_existing, failed);
  if (failed == std::errc::no_such_file_or_directory && !fs::exists(from)) return false;
  if (!failed) fs::rename(unfinished, to, failed);
  if (!failed) return true;
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  throw Failure("cannot copy {} to {}: {}", from.string(), to.string(), failed.message());
}

bool is_in_store(const std::string& place) { return is_store(parse_location(place)); }

// Throws a Failure with the first error of a transfer.
void require_success(const FetchReport& report) {
  for (const FetchedFile& file : report.files)
    if (!file.error.empty()) throw Failure("{}: {}", file.url, file.error);
}

void copy_once(const CopyResults& request) {
  const auto silent = [](const FetchProgress&) {};
  std::error_code missing;
  if (is_in_store(request.to)) {
    if (!fs::exists(request.from, missing) || fs::is_empty(request.from, missing)) return;
    const PushRequest push{.paths = {request.from}, .destination = request.to, .via = "auto", .transfer = {}};
    require_success(carry_out(plan_push(push), push.transfer, silent));
  } else if (is_in_store(request.from)) {
    FetchRequest fetch;
    fetch.urls = {request.from.ends_with('/') ? request.from : request.from + "/"};
    fetch.output = request.to;
    require_success(carry_out(plan_fetch(fetch), fetch.download, silent));
  } else {
    copy_changed_files(request.from, request.to);
  }
}

// A copy that fails must not end the run; it is tried again.
bool try_to_copy(const CopyResults& request) {
  try {
    copy_once(request);
    return true;
  } catch (const std::exception& error) {
    fmt::print(stderr, "copy-results: {}\n", line_of(error));
    return false;
  }
}

std::atomic<pid_t> child_of_signals{0};

void pass_on(int signal) {
  if (const pid_t child = child_of_signals; child > 0) ::kill(child, signal);
}

pid_t start(const std::vector<std::string>& command) {
  const std::vector<char*> words = argv_of(command);
  // Signals that arrive before the child's process number is known wait until then.
  sigset_t passed_on, before;
  sigemptyset(&passed_on);
  for (const int signal : kPassedOn) sigaddset(&passed_on, signal);
  ::sigprocmask(SIG_BLOCK, &passed_on, &before);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0], nullptr, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) {
    child_of_signals = child;
    for (const int signal : kPassedOn) std::signal(signal, pass_on);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) throw Failure("cannot start {}: {}", command.front(), std::generic_category().message(error));
  return child;
}

}  // namespace

int64_t copy_changed_files(const fs::path& from, const fs::path& to) {
  int64_t copied = 0;
  for (const ChangedFile& file : changed_files(from, to)) copied += copy_one(from / file.name, to / file.name) ? 1 : 0;
  return copied;
}

int copy_results(const CopyResults& request) {
  if (request.command.empty()) return try_to_copy(request) ? kDone : kFailed;
  const pid_t child = start(request.command);
  int status = 0;
  Clock::time_point next = Clock::now() + std::chrono::seconds(request.seconds);
  for (pid_t ended = 0; ended != child; ended = ::waitpid(child, &status, WNOHANG)) {
    if (ended < 0 && errno != EINTR) throw Failure("cannot wait for {}", request.command.front());
    std::this_thread::sleep_for(kPoll);
    if (Clock::now() < next) continue;
    try_to_copy(request);
    next = Clock::now() + std::chrono::seconds(request.seconds);
  }
  child_of_signals = 0;
  const int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const bool is_copied = try_to_copy(request);
  return own == kDone && !is_copied ? kFailed : own;
}

}  // namespace trireme
