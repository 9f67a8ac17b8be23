// trireme validate: checks the nodes of a job before a run.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/validate_options.h"
#include "comm/control.h"
#include "comm/nccl_topology.h"
#include "train/rank_machine.h"
#include "validate/validation.h"

namespace trireme {
namespace {

constexpr int kCheckFailed = 2;  // of the command: a node or link is bad

ValidationOptions options_of(const ValidateArguments& arguments, bool is_root) {
  ValidationOptions options{.depth = arguments.quick ? Depth::quick : Depth::full,
                            .dcgm_level = arguments.dcgm_level_to_run(),
                            .has_speeds = !arguments.dcgm || arguments.nccl,
                            .runs_after_dcgm_fault = arguments.nccl,
                            .max_bytes = arguments.max_bytes,
                            .folders = {},
                            .cluster = arguments.cluster};
  if (!arguments.cluster.empty()) load_platform(arguments.cluster);  // a wrong name is an error before anything is measured
  if (!arguments.data.empty()) options.folders.push_back({"--data", arguments.data, false, 0});
  if (!arguments.results.empty()) options.folders.push_back({"--results", arguments.results, true, arguments.min_free});
  if (!is_root) return options;
  options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!arguments.json)
    options.print = [](const std::string& lines) {
      fmt::print("{}", lines);
      std::fflush(stdout);
    };
  return options;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  if (path.has_parent_path()) create_folders(path.parent_path());
  atomic_write(path, bytes_of(text));
}

// NCCL's file of this node. Returns what is said of it.
std::string write_topology(const std::string& path) {
  const NcclTopology topology = read_nccl_topology(system_root());
  if (topology.gpus + topology.cards == 0)
    return fmt::format("{} was not written: this node has no NVIDIA GPU and no InfiniBand card in /sys", path);
  write_file(path, topology.xml);
  return fmt::format("{}: {}; NCCL_TOPO_FILE={} makes NCCL read it", path, topology.summary(), path);
}

void write_report(const ValidateArguments& arguments, const ValidationReport& report) {
  if (arguments.json)
    print_json(json_of(report));
  else
    fmt::print("{}", text_of(report));
  std::fflush(stdout);
  if (!arguments.html.empty()) write_file(arguments.html, page_of(report));
  if (arguments.output.empty()) return;
  write_file(std::filesystem::path(arguments.output) / "validation.json", json_text(json_of(report)) + "\n");
  write_file(std::filesystem::path(arguments.output) / "validation.html", page_of(report));
}

// Every rank: the verdict of the first is that of all, given after it has printed and written everything.
int validate_ranks(World& world, const ValidateArguments& arguments) {
  const ValidationOptions options = options_of(arguments, world.rank() == 0);
  RankMachine machine(world, TrainerSettings{});
  const Mesh mesh = machine.connect({{.tp = world.size()}, world.rank()});
  RankGroup here{machine.backend(), *mesh.world, world.control()};
  ValidationReport report = run_validation(here, options);
  if (world.rank() == 0 && !arguments.topology.empty()) report.notes.push_back(write_topology(arguments.topology));
  if (world.rank() == 0) write_report(arguments, report);
  const std::string verdict = world.control().share("verdict", report.is_good() ? "good" : "bad");
  return verdict == "good" ? kDone : kCheckFailed;
}

}  // namespace

// A user's mistake has status 1 here, because 2 says that a node is bad, and scripts leave nodes out for it.
int validate(const ValidateArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  World world = World::find();
  try {
    return validate_ranks(world, arguments);
  } catch (const UserError& error) {
    if (world.streams() == nullptr) throw Failure("{}", error.what());
    world.leave(Failure("{}", error.what()));
  } catch (const std::exception& error) {
    if (world.streams() == nullptr) throw;
    world.leave(error);
  }
}

void add_validate_command(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command = app.add_subcommand("validate",
                                         "Check the nodes of a job before a run: inventory, devices, collectives, links.\n\n"
                                         "examples:  trireme validate --quick\n"
                                         "           mpirun -n 4 trireme validate --quick --results runs\n"
                                         "           trireme validate slurm --nodes 4 --partition gpu\n");
  command->add_flag("--local", arguments->local, "this machine; the same as without it");
  add_validate_options(*command, *arguments);
  add_validate_slurm_command(*command, status);
  command->callback([arguments, command, &status] {
    if (command->get_subcommands().empty()) status = validate(*arguments);
  });
}

}  // namespace trireme
