#include "launch/kubernetes/pod_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "fetch/glob.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFilesAtOnce = 200;  // on one command line
constexpr int64_t kSecondsToAct = 60, kSecondsToStart = 300, kSecondsToCopy = 24 * 3600;

std::vector<std::string> in_workload(const std::string& pod, std::vector<std::string> words) {
  words.insert(words.begin(), {"exec", pod, "--container", "workload", "--"});
  return words;
}

std::vector<std::string> list_files(const Release& release, const std::string& pod, const std::string& folder,
                                    const std::string& glob) {
  const CommandOutput result =
      run_with_limit(kubectl_command(release, in_workload(pod, {"find", folder, "-type", "f"})), kSecondsToAct);
  if (result.status != 0) throw Failure("{} of pod {} cannot be listed: {}", folder, pod, last_line(result.errors));
  std::vector<std::string> names;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(folder + "/")) continue;
    const fs::path name = line.substr(folder.size() + 1);
    if (glob_matches(glob, name.string()) || glob_matches(glob, name.filename().string())) names.push_back(name.string());
  }
  std::ranges::sort(names);
  return names;
}

void require(const CommandOutput& result, const std::string& what) {
  if (result.status != 0) throw Failure("{}: {}", what, last_line(result.errors));
}

}  // namespace

int64_t copy_from_pod(const Release& release, const std::string& pod, const std::string& folder, const std::string& glob,
                      const fs::path& to) {
  const std::vector<std::string> names = list_files(release, pod, folder, glob);
  if (names.empty()) return 0;
  create_folders(to);
  const fs::path archive = to / ".fetched.partial";
  for (size_t begin = 0; begin < names.size(); begin += kFilesAtOnce) {
    std::vector<std::string> tar{"tar", "cf", "-", "-C", folder, "--"};
    tar.insert(tar.end(), names.begin() + static_cast<std::ptrdiff_t>(begin),
               names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), begin + kFilesAtOnce)));
    std::vector<std::string> command{"/bin/sh", "-c", R"(archive=$1; shift; exec "$@" > "$archive")", "sh", archive.string()};
    for (std::string& word : kubectl_command(release, in_workload(pod, tar))) command.push_back(std::move(word));
    require(run_with_limit(command, kSecondsToCopy), fmt::format("files of pod {} cannot be read", pod));
    require(run_with_limit({"tar", "xf", archive.string(), "-C", to.string()}, kSecondsToCopy), archive.string());
  }
  std::error_code ignored;
  fs::remove(archive, ignored);
  return static_cast<int64_t>(names.size());
}

TemporaryPod::TemporaryPod(Release release, std::string name, const fs::path& manifest)
    : release_(std::move(release)), name_(std::move(name)) {
  require(run_with_limit(kubectl_command(release_, {"apply", "--filename", manifest.string()}), kSecondsToAct), name_);
  const CommandOutput result = run_with_limit(
      kubectl_command(release_, {"wait", "--for=condition=Ready", "pod/" + name_, "--timeout=240s"}), kSecondsToStart);
  if (result.status == 0) return;
  remove();
  throw Failure("pod {}, which reads the volumes, does not start: {}", name_, last_line(result.errors));
}

TemporaryPod::~TemporaryPod() { remove(); }

void TemporaryPod::remove() const {
  try {
    run_with_limit(kubectl_command(release_, {"delete", "pod", name_, "--ignore-not-found", "--wait=false"}), kSecondsToAct);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{} is not removed: {}\n", name_, error.what());
  }
}

}  // namespace trireme
