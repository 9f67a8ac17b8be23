// trireme plan --measure: this machine as a hardware file.
#include <fmt/format.h>

#include <csignal>

#include "base/error.h"
#include "base/file.h"
#include "cli/plan_commands.h"
#include "comm/control.h"
#include "config/yaml.h"
#include "plan/machine_measure.h"
#include "train/fit.h"
#include "train/rank_machine.h"

namespace trireme {
namespace {

// The machine that this runs on, as a hardware file. Every rank measures, the first one writes.
void measure(const PlanArguments& arguments, World& world) {
  RankMachine machine(world,
                      {.backend = arguments.cpu ? BackendKind::cpu : BackendKind::automatic, .threads = arguments.threads});
  const Mesh mesh = machine.connect({{.tp = world.size()}, world.rank()});
  Backend& backend = machine.backend();
  const std::vector<RankPlace>& places = world.control().places();
  const bool is_gpu = backend.device_memory().has_value();
  const int64_t threads = is_gpu ? 0 : arguments.threads > 0 ? arguments.threads : threads_of(places, world.rank());
  MeasureRequest request = measure_request(backend, threads, arguments.quick ? MeasureDepth::quick : MeasureDepth::full);
  request.memory = resources_of(backend, resources_of(world), machine.ranks_per_device()).memory;
  request.ranks_per_node = world.size() / hosts_of(places);
  request.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  RankGroup here{backend, *mesh.world, world.control()};
  const Tree file = measure_machine(here, request);
  if (world.rank() == 0) {
    const std::string text = fmt::format("{}what was measured on this machine\n{}", kWrittenByPlan, write_yaml(file));
    atomic_write(arguments.output, bytes_of(text));
    fmt::print("{}: use it with --cluster ./{}\n", arguments.output, arguments.output);
  }
  world.control().share("measured", "");
}

}  // namespace

void measure_this_machine(const PlanArguments& arguments) {
  if (arguments.output.empty()) throw UserError("--measure needs --output FILE, such as --output this-machine.yaml");
  require_own_file(arguments.output);
  std::signal(SIGPIPE, SIG_IGN);
  World world = World::find();
  try {
    measure(arguments, world);
  } catch (const std::exception& error) {
    if (world.streams() == nullptr) throw;
    world.leave(error);
  }
}

}  // namespace trireme
