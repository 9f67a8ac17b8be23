#include "launch/kubernetes/job_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/exit_status.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// The member at a path; null if it or anything on the way is missing.
Json at(const Json& json, std::initializer_list<const char*> path) {
  const Json* here = &json;
  for (const char* key : path) {
    if (!here->is_object() || !here->contains(key)) return {};
    here = &here->at(key);
  }
  return *here;
}

std::string text_at(const Json& json, std::initializer_list<const char*> path) {
  const Json found = at(json, path);
  return found.is_string() ? found.get<std::string>() : "";
}

int64_t number_at(const Json& json, std::initializer_list<const char*> path) {
  const Json found = at(json, path);
  return found.is_number_integer() ? found.get<int64_t>() : 0;
}

// A condition that is true; null if there is none.
Json condition(const Json& object, std::initializer_list<const char*> types) {
  const Json conditions = at(object, {"status", "conditions"});
  for (const Json& one : conditions)
    for (const char* type : types)
      if (text_at(one, {"type"}) == type && text_at(one, {"status"}) == "True") return one;
  return {};
}

Json workload_of(const Json& pod) {
  const Json containers = at(pod, {"status", "containerStatuses"});
  for (const Json& container : containers)
    if (text_at(container, {"name"}) == "workload") return container;
  return {};
}

struct EndedPod {
  std::string name, finished;
  int exit_status = 0;
};

// The pod that failed first is the reason of the others.
std::optional<EndedPod> first_failure(const Json& pods) {
  std::optional<EndedPod> first;
  for (const Json& pod : at(pods, {"items"})) {
    const Json end = at(workload_of(pod), {"state", "terminated"});
    if (!end.is_object() || number_at(end, {"exitCode"}) == 0) continue;
    const EndedPod ended{text_at(pod, {"metadata", "name"}), text_at(end, {"finishedAt"}),
                         static_cast<int>(number_at(end, {"exitCode"}))};
    if (!first || ended.finished < first->finished) first = ended;
  }
  return first;
}

// Why a pod does not run yet: no node has room, its image cannot be pulled.
std::string reason_of_waiting(const Json& pods) {
  for (const Json& pod : at(pods, {"items"})) {
    const std::string name = text_at(pod, {"metadata", "name"});
    for (const char* list : {"initContainerStatuses", "containerStatuses"})
      for (const Json& container : at(pod, {"status", list})) {
        const Json waiting = at(container, {"state", "waiting"});
        const std::string reason = text_at(waiting, {"reason"});
        if (reason.empty() || reason == "PodInitializing" || reason == "ContainerCreating") continue;
        const std::string message = text_at(waiting, {"message"});
        return fmt::format("{}: {}{}{}", name, reason, message.empty() ? "" : ": ", message);
      }
    for (const Json& one : at(pod, {"status", "conditions"}))
      if (text_at(one, {"type"}) == "PodScheduled" && text_at(one, {"status"}) == "False")
        return fmt::format("{}: {}", name, text_at(one, {"message"}));
  }
  return "";
}

JobStatus failed_status(const Json& reason, const Json& pods) {
  JobStatus status{.phase = JobPhase::failed, .detail = text_at(reason, {"message"}), .exit_status = kFailed};
  const std::optional<EndedPod> first = first_failure(pods);
  if (!first) return status;
  status.exit_status = first->exit_status;
  status.detail = fmt::format("pod {} ended first, with exit status {}", first->name, first->exit_status);
  if (first->exit_status == kStoppedAfterSaving) status.phase = JobPhase::stopped;
  return status;
}

JobStatus alive_status(const Json& job, const Json& pods) {
  int64_t running = 0, wanted = number_at(job, {"spec", "parallelism"});
  for (const Json& pod : at(pods, {"items"})) running += text_at(pod, {"status", "phase"}) == "Running" ? 1 : 0;
  if (wanted == 0)  // a JobSet has it in its only job
    for (const Json& part : at(job, {"spec", "replicatedJobs"})) wanted += number_at(part, {"template", "spec", "parallelism"});
  const std::string waiting = reason_of_waiting(pods);
  const std::string colon = waiting.empty() ? "" : "; ";
  if (running == 0)
    return {.phase = JobPhase::waiting, .detail = waiting.empty() ? "pods are starting" : waiting, .exit_status = {}};
  return {.phase = JobPhase::running,
          .detail = fmt::format("{} of {} pods run{}{}", running, wanted, colon, waiting),
          .exit_status = {}};
}

}  // namespace

JobStatus job_status(const Json& job, const Json& pods) {
  if (condition(job, {"Complete", "Completed"}).is_object()) return {.phase = JobPhase::done, .detail = "", .exit_status = kDone};
  if (const Json failed = condition(job, {"Failed"}); failed.is_object()) return failed_status(failed, pods);
  const Json is_suspended = at(job, {"spec", "suspend"});
  if (is_suspended.is_boolean() && is_suspended.get<bool>()) {
    const std::string queue = text_at(job, {"metadata", "labels", "kueue.x-k8s.io/queue-name"});
    return {.phase = JobPhase::waiting,
            .detail = queue.empty() ? "until the jobs before it have succeeded" : "in queue " + queue,
            .exit_status = {}};
  }
  return alive_status(job, pods);
}

int64_t index_of_pod(const Json& pod) {
  for (const char* place : {"labels", "annotations"})
    if (const std::string index = text_at(pod, {"metadata", place, "batch.kubernetes.io/job-completion-index"}); !index.empty())
      return std::atoll(index.c_str());
  return -1;
}

bool has_started(const Json& pod) {
  const Json container = workload_of(pod);
  return at(container, {"state", "running"}).is_object() || at(container, {"state", "terminated"}).is_object();
}

}  // namespace trireme
