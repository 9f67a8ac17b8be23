// What kubectl says of a job, as the state of a job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launch/launch_target.h"

namespace trireme {

// `job`: kubectl get job or jobset; `pods`: of the workload.
JobStatus job_status(const nlohmann::json& job, const nlohmann::json& pods);

// The index of a pod; -1 if it has none.
int64_t index_of_pod(const nlohmann::json& pod);

// Whether the workload of a pod has started, so that it has a log.
bool has_started(const nlohmann::json& pod);

}  // namespace trireme
