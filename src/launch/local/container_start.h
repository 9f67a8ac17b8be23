// The argument lists that start a job in a container, one per runtime.
#pragma once

#include <string>
#include <vector>

#include "launch/job.h"

namespace trireme {

// What a container can be given of this machine.
struct ContainerDevices {
  int64_t gpus = 0;             // 0: the job uses none
  bool has_infiniband = false;  // /dev/infiniband is there
  // Resource limits above those of this process can be set. Where not, podman refuses to start a container that asks for them;
  // the daemons of the other runtimes set them.
  bool can_raise_limits = true;
};

struct ContainerStart {
  std::vector<std::string> start;    // the command in the container follows
  std::vector<std::string> removal;  // ends a container that outlives its client; empty: none can
};

// `name` identifies the container on this machine. UserError if the runtime is unknown or the image cannot be one of its.
ContainerStart container_start(const Container& container, const std::string& name,
                               const std::vector<EnvironmentVariable>& environment, const ContainerDevices& devices);

ContainerDevices container_devices(int64_t gpus);  // of this machine and process

// UserError unless the runtime is installed and a file that is named as image is there.
void require_container(const Container& container);

}  // namespace trireme
