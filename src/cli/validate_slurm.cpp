// trireme validate slurm: the same checks, started on the nodes of a Slurm site.
#include <fmt/chrono.h>

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/validate_options.h"
#include "launch/slurm/validation_step.h"

namespace trireme {
namespace {

constexpr const char* kFolder = "results/cluster_validation";

struct SlurmArguments {
  ValidateArguments checks;
  LaunchOptions site;
  int64_t ranks_per_node = 0;
  bool dry_run = false;
};

// Those that were given, as words for the ranks.
std::vector<std::string> words_of(const ValidateArguments& checks) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  const auto flag = [&](const char* name, bool given) {
    if (given) words.emplace_back(name);
  };
  flag("--quick", checks.quick);
  flag("--dcgm", checks.dcgm);
  flag("--nccl", checks.nccl);
  add("--dcgm-level", std::to_string(checks.dcgm_level));
  add("--cluster", checks.cluster);
  add("--data", checks.data);
  add("--results", checks.results);
  if (!checks.topology.empty()) add("--topology", std::filesystem::absolute(checks.topology).string());
  if (checks.min_free > 0) add("--min-free", std::to_string(checks.min_free));
  if (checks.max_bytes > 0) add("--max-bytes", std::to_string(checks.max_bytes));
  return words;
}

std::filesystem::path folder_of(const SlurmArguments& arguments) {
  if (!arguments.checks.output.empty()) return std::filesystem::absolute(arguments.checks.output);
  const auto now = static_cast<std::time_t>(system_clock().unix_microseconds() / 1'000'000);
  return std::filesystem::absolute(kFolder) / fmt::format("{:%Y-%m-%d_%H-%M-%S}", fmt::localtime(now));
}

int validate_on_slurm(const SlurmArguments& arguments) {
  const SlurmValidation request{.options = arguments.site,
                                .ranks_per_node = arguments.ranks_per_node,
                                .checks = words_of(arguments.checks),
                                .folder = folder_of(arguments)};
  const SlurmValidationPlan plan = plan_validation(request, look_at_site());
  for (const LaunchChoice& choice : plan.choices) fmt::print(stderr, "chose   {}: {}\n", choice.what, choice.why);
  fmt::print(stderr, "command {}\n", fmt::join(plan.words, " "));
  if (arguments.dry_run) return kDone;
  fmt::print(stderr, "Logging to: {}\n", (request.folder / "rank-00000.log").string());
  const int status = run_validation_step(request, plan);
  fmt::print(stderr, "written {}\n", (request.folder / "validation.json").string());
  return status;
}

// A user's mistake has status 1 here, as in trireme validate.
int validate_on_slurm_or_fail(const SlurmArguments& arguments) {
  try {
    return validate_on_slurm(arguments);
  } catch (const UserError& error) {
    throw Failure("{}", error.what());
  }
}

}  // namespace

void add_validate_slurm_command(CLI::App& validate, int& status) {
  auto arguments = std::make_shared<SlurmArguments>();
  CLI::App* command = validate.add_subcommand("slurm",
                                              "Check nodes of a Slurm site: starts the checks with srun, one rank per GPU.\n\n"
                                              "examples:  trireme validate slurm --nodes 4 --partition gpu\n"
                                              "           trireme validate slurm --nodelist n[1-8] --dcgm\n"
                                              "           trireme validate slurm --nodes 2 --quick --dry-run\n");
  LaunchOptions& site = arguments->site;
  command->add_option("--nodes", site.nodes, "how many; without it and --nodelist all usable ones of the partition")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help) {
    command->add_option(name, value, help)->type_name(type);
  };
  text("--nodelist", site.nodelist, "LIST", "which nodes");
  text("--exclude", site.exclude, "LIST", "which nodes not");
  text("--partition", site.partition, "NAME", "default: Slurm's");
  text("--account", site.account, "NAME", "who pays");
  text("--reservation", site.reservation, "NAME", "a reservation of the nodes");
  text("--time", site.time, "TIME", "a time limit");
  command->add_option("--ranks-per-node", arguments->ranks_per_node, "default: the GPUs of a node, or 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 12));
  command->add_flag("--dry-run", arguments->dry_run, "print the command and why it is so");
  add_check_options(*command, arguments->checks);
  text("--output", arguments->checks.output, "FOLDER", "logs and results; default: results/cluster_validation/DATE");
  command->callback([arguments, &status] { status = validate_on_slurm_or_fail(*arguments); });
}

}  // namespace trireme
