// Files of a launch that are in its pods or on its volumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "launch/kubernetes/cluster.h"

namespace trireme {

// Copies the files below `folder` of a pod's container `workload` whose path or name matches `glob` to `to`; returns how many.
int64_t copy_from_pod(const Release& release, const std::string& pod, const std::string& folder, const std::string& glob,
                      const std::filesystem::path& to);

// A pod made from a manifest, that is removed at the end of the scope.
class TemporaryPod {
 public:
  // Returns when it runs. Failure if it does not.
  TemporaryPod(Release release, std::string name, const std::filesystem::path& manifest);
  ~TemporaryPod();
  TemporaryPod(const TemporaryPod&) = delete;
  TemporaryPod& operator=(const TemporaryPod&) = delete;

 private:
  void remove() const;

  Release release_;
  std::string name_;
};

}  // namespace trireme
