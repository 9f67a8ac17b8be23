// Sweeps: --sweep model.micro_batch_size=1,2,4 --sweep model.tensor_model_parallel_size=4,8 is one run per combination.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// The overrides of each combination, the last key fastest: {model.micro_batch_size=1, model.tensor_model_parallel_size=4}, ...
// Without sweeps one combination without overrides. A value in [brackets], {braces} or quotes may contain commas. UserError for a
// sweep without values, a key that is given twice, or more than 1,000 combinations.
std::vector<std::vector<std::string>> sweep_points(const std::vector<std::string>& sweeps);

}  // namespace trireme
