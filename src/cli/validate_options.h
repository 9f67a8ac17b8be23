// The options of trireme validate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

struct ValidateArguments {
  bool local = false, quick = false, json = false;
  bool dcgm = false, nccl = false;  // only these parts; both: both, the second also after a fault in the first
  int dcgm_level = 1;
  int64_t min_free = 0, max_bytes = 0;
  std::string cluster, data, results, topology, html, output;

  int dcgm_level_to_run() const { return nccl && !dcgm ? 0 : dcgm_level; }
};

void add_check_options(CLI::App& command, ValidateArguments& arguments);     // what is checked
void add_validate_options(CLI::App& command, ValidateArguments& arguments);  // and where the result goes
void add_validate_slurm_command(CLI::App& validate, int& status);

// Runs the checks as one rank of the job that this process belongs to. Returns the exit status.
int validate(const ValidateArguments& arguments);

}  // namespace trireme
