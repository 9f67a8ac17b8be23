// The sbatch file of a job: what is asked of Slurm, the environment of the ranks, and the srun of one attempt. The same input
// gives the same text.
#pragma once

#include <filesystem>
#include <string>

#include "launch/launch_target.h"
#include "launch/slurm/site_choice.h"

namespace trireme {

// Where a job keeps its script, logs and state: the folder of the launch for a training, a folder inside it for other stages.
std::filesystem::path slurm_folder(JobStage stage, const std::filesystem::path& job_folder);

std::filesystem::path batch_script_path(const Job& job);
// `program` is the path of this program, which supervises the attempts on the first node.
std::string batch_script(const Job& job, const LaunchOptions& options, const SlurmRun& run, const std::string& program);

}  // namespace trireme
