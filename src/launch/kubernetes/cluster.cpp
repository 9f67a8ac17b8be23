#include "launch/kubernetes/cluster.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "config/catalogue.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostOutput = 64 << 20;
constexpr int64_t kSecondsToReach = 10, kSecondsToAnswer = 60;
constexpr int kTimedOut = 124;

std::string first_line_of(const CommandOutput& result) {
  std::string line = result.output.substr(0, result.output.find('\n'));
  return result.status == 0 ? line : "";
}

}  // namespace

std::string id_of(const Release& release) { return fmt::format("{}@{}@{}", release.name, release.name_space, release.context); }

Release parse_release(const std::string& id) {
  const size_t first = id.find('@'), second = first == std::string::npos ? first : id.find('@', first + 1);
  if (second == std::string::npos) throw Failure("{} is not a release on Kubernetes", id);
  return {id.substr(0, first), id.substr(first + 1, second - first - 1), id.substr(second + 1)};
}

ClusterAccess find_cluster(const std::string& context, const std::string& name_space) {
  ClusterAccess access{context, name_space, ""};
  if (find_program("kubectl").empty()) {
    access.problem = "kubectl is not on the path; install it from https://kubernetes.io/docs/tasks/tools";
  } else if (access.context.empty()) {
    access.context = first_line_of(run_with_limit({"kubectl", "config", "current-context"}, kSecondsToReach));
    if (access.context.empty())
      access.problem = "kubectl has no current context; give --context, or set one with kubectl config use-context";
  }
  if (access.problem.empty() && access.name_space.empty())
    access.name_space = first_line_of(run_with_limit(
        {"kubectl", "config", "view", "--minify", "--context", access.context, "-o", "jsonpath={..namespace}"}, kSecondsToReach));
  if (access.name_space.empty()) access.name_space = "default";
  if (!access.problem.empty()) return access;
  const CommandOutput answer = run_with_limit(
      {"kubectl", "--context", access.context, "--request-timeout=5s", "get", "--raw", "/version"}, kSecondsToReach);
  if (answer.status == kTimedOut)
    access.problem = fmt::format("the cluster of context {} does not answer within {} s", access.context, kSecondsToReach);
  else if (answer.status != 0)
    access.problem = fmt::format("the cluster of context {} cannot be reached: {}", access.context, last_line(answer.errors));
  return access;
}

std::vector<std::string> helm_command(const Release& release, std::vector<std::string> words) {
  words.insert(words.begin(), "helm");
  words.insert(words.end(), {"--namespace", release.name_space});
  if (!release.context.empty()) words.insert(words.end(), {"--kube-context", release.context});
  return words;
}

std::vector<std::string> kubectl_command(const Release& release, std::vector<std::string> words) {
  std::vector<std::string> command{"kubectl"};
  if (!release.context.empty()) command.insert(command.end(), {"--context", release.context});
  command.insert(command.end(), {"--namespace", release.name_space});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

CommandOutput run_with_limit(const std::vector<std::string>& command, int64_t seconds) {
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::jthread watch([&] {
    std::unique_lock lock(mutex);
    if (!ended.wait_for(lock, std::chrono::seconds(seconds), [&] { return has_ended; })) stop = true;
  });
  const auto release_watch = [&] {
    const std::scoped_lock lock(mutex);
    has_ended = true;
    ended.notify_all();
  };
  try {
    CommandOutput result = run_command(command, kMostOutput, &stop);
    release_watch();
    if (stop && result.status != 0) result.status = kTimedOut;
    return result;
  } catch (...) {
    release_watch();
    throw;
  }
}

std::optional<nlohmann::json> kubectl_json(const Release& release, std::vector<std::string> words) {
  words.insert(words.end(), {"-o", "json", fmt::format("--request-timeout={}s", kSecondsToReach)});
  const CommandOutput result = run_with_limit(kubectl_command(release, words), kSecondsToAnswer);
  if (result.status != 0 && result.errors.find("NotFound") != std::string::npos) return std::nullopt;
  if (result.status == kTimedOut) throw Failure("kubectl does not answer within {} s", kSecondsToAnswer);
  if (result.status != 0) throw Failure("kubectl: {}", last_line(result.errors));
  nlohmann::json json = try_parse_json(result.output);
  if (json.is_discarded()) throw Failure("kubectl printed no JSON: {}", result.output.substr(0, 80));
  return json;
}

int run_attached(const std::vector<std::string>& command) {
  const std::vector<char*> words = argv_of(command);
  std::fflush(stdout);
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, words[0], nullptr, nullptr, words.data(), environ); error != 0)
    throw Failure("cannot start {}: {}", command.front(), std::generic_category().message(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\n ");
  if (end == std::string::npos) return "it gave no reason";
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

fs::path find_chart(const std::string& given) {
  std::error_code failed;
  if (!given.empty()) {
    if (fs::exists(fs::path(given) / "Chart.yaml", failed)) return fs::absolute(given).lexically_normal();
    throw UserError("chart={} is not the folder of a chart: it has no Chart.yaml", given);
  }
  for (const fs::path& chart : catalogue_folders("charts/trireme"))
    if (fs::exists(chart / "Chart.yaml", failed)) return chart;
  throw UserError("the chart charts/trireme is not beside the recipes; give its folder by --chart");
}

}  // namespace trireme
