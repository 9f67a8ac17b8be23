// The stages of a launch, in the order of the NeMo launcher: data_preparation, training, conversion, evaluation.
#pragma once

#include <string>
#include <vector>

#include "config/launcher_request.h"
#include "launch/job.h"

namespace trireme {

// The stages that the user names, else those of a launcher's tree, else training. UserError for stages that this program does not
// have.
std::vector<JobStage> stages_of(const std::vector<std::string>& named, const LauncherRequest& launcher);

// The words of lists that are separated by commas.
std::vector<std::string> split_at_commas(const std::vector<std::string>& named);

// The words of each task of data preparation: one per file of the dataset. Empty if the dataset is made by one task.
std::vector<std::vector<std::string>> data_tasks(const std::string& data_recipe, const std::string& output,
                                                 const std::string& files);

}  // namespace trireme
