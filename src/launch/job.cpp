#include "launch/job.h"

#include "train/checkpoint/folder.h"

namespace trireme {

std::string name_of(JobStage stage) {
  constexpr const char* kNames[] = {"data_preparation", "training", "conversion", "evaluation", "validation"};
  return kNames[static_cast<size_t>(stage)];
}

int64_t newest_step(const std::filesystem::path& run_folder) {
  const std::vector<int64_t> steps = checkpoint_steps(run_folder / "checkpoints");
  return steps.empty() ? -1 : steps.back();
}

}  // namespace trireme
