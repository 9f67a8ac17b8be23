#include "cli/validate_options.h"

#include "validate/dcgm.h"

namespace trireme {

void add_check_options(CLI::App& command, ValidateArguments& arguments) {
  command.add_flag("--quick", arguments.quick, "shorter measurements, smaller messages, fewer pairs");
  command.add_flag("--dcgm", arguments.dcgm, "only the inventory and DCGM; with --nccl also what follows, even after a fault");
  command.add_flag("--nccl", arguments.nccl, "without DCGM: inventory, devices, collectives and pairs");
  command
      .add_option("--dcgm-level", arguments.dcgm_level, "of dcgmi diag where dcgmi is installed: 1 takes seconds, 3 15 minutes")
      ->check(CLI::Range(1, kMostDcgmLevel))
      ->capture_default_str();
  command
      .add_option("--cluster", arguments.cluster, "a platform of hardware/ that speeds are compared with; else that of the GPU")
      ->type_name("NAME");
  command.add_option("--data", arguments.data, "a folder that must be the same on all nodes")->type_name("FOLDER");
  command.add_option("--results", arguments.results, "a folder that must be the same, and be written from, on all nodes")
      ->type_name("FOLDER");
  command.add_option("--min-free", arguments.min_free, "room that --results must have, such as 500G")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  command.add_option("--topology", arguments.topology, "write NCCL's file of the first node's GPUs, cards and PCI switches")
      ->type_name("FILE");
  command.add_option("--max-bytes", arguments.max_bytes, "of the largest collective, 4K to 8G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(int64_t{4} << 10, int64_t{8} << 30))
      ->type_name("BYTES");
}

void add_validate_options(CLI::App& command, ValidateArguments& arguments) {
  add_check_options(command, arguments);
  command.add_flag("--json", arguments.json, "print the result as JSON");
  command.add_option("--html", arguments.html, "write the result as a page with a map of all pairs")->type_name("FILE");
  command.add_option("--output", arguments.output, "write validation.json and validation.html to this folder")
      ->type_name("FOLDER");
}

}  // namespace trireme
