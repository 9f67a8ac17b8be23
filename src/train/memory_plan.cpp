#include "train/memory_plan.h"

#include <set>

#include "base/units.h"
#include "comm/rank_place.h"
#include "train/engine_checkpoint.h"

namespace trireme {
namespace {

std::string holdings_of(const FlatLayout& layout) {
  std::set<int> layers;
  for (const ParameterRow& row : layout.table)
    if (row.owner == Owner::block) layers.insert(static_cast<int>(row.layer));
  std::string text = fmt::format("layers {}", range_text({layers.begin(), layers.end()}));
  if (layout.shard.first_stage()) text = "embedding, " + text;
  if (layout.shard.last_stage()) text += ", head";
  return text;
}

}  // namespace

MemoryPlan plan_memory(const EngineSettings& settings, const Backend& target, int64_t micro_batches, const MeshPlace& place,
                       StepLog* keep) {
  StepLog counted(StepLog::Keep::no);
  StepLog& log = keep != nullptr ? *keep : counted;
  MemoryPlan plan;
  CostBackend cost(target, log);
  const CostMesh cost_mesh = CostMesh::of(place, &log);
  LifetimeRecorder lifetimes;
  log.watch(&lifetimes);
  Engine engine(settings, cost, cost_mesh.mesh, plan.arenas, lifetimes);
  StepInput input{.learning_rate = 0, .targets = 1, .micro_batches = micro_batches, .batch = [](int64_t) { return HostBatch{}; }};
  engine.initialise_weights();  // what the first step waits for
  log.clear();
  engine.train_step(input);
  plan.flops = log.flops;
  plan.bytes_moved = log.bytes_moved;
  plan.schedule = lifetimes.executed();
  StepLog step = log;
  input.micro_batches = 1;
  engine.evaluate(input);
  log = std::move(step);
  lifetimes.finish();
  log.watch(nullptr);
  plan.scratch = cost.scratch_peaks();
  plan.communication = cost_mesh.staging_bytes();
  plan.recorded = lifetimes.actions();
  plan.step = place_tensors(plan.recorded, engine.slots(), plan.scratch);
  plan.checkpoint_copy = saved_bytes(engine);
  plan.holdings = holdings_of(engine.layout());
  return plan;
}

std::vector<std::pair<std::string, int64_t>> MemoryPlan::rows() const {
  return {{"parameters", arenas.parameters.peak()}, {"gradients", arenas.gradients.peak()}, {"masters", arenas.masters.peak()},
          {"states", arenas.states.peak()},         {"activations", activations()},         {"scratch", workspace()},
          {"communication", communication}};
}

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const auto& [label, bytes] : rows()) sum += bytes;
  return sum;
}

RunMemory::RunMemory(const MemoryPlan& plan, Backend& backend)
    : arenas(Arenas::like(plan.arenas, backend)),
      plan_(plan),
      backend_(backend),
      block_("step", plan.step.bytes, [&](int64_t bytes) { return backend.allocate(bytes); }),
      step(plan.step, block_.take({plan.step.bytes}, DType::u8)) {
  lend_scratch();
}

void RunMemory::lend_scratch() {
  const Tensor& block = step.block();
  backend_.set_scratch(kCompute, block.rows(plan_.step.kept, plan_.scratch.compute));
  if (plan_.scratch.wgrad > 0) backend_.set_scratch(kWgrad, block.rows(plan_.step.wgrad_scratch, plan_.scratch.wgrad));
}

std::string memory_table(const MemoryPlan& plan, const std::vector<std::pair<std::string, int64_t>>& extra) {
  std::string text = "memory";
  int64_t sum = plan.total();
  const auto add = [&](const std::string& label, int64_t bytes) { text += fmt::format("  {} {}", label, format_bytes(bytes)); };
  for (const auto& [label, bytes] : plan.rows())
    if (bytes > 0) add(label, bytes);
  for (const auto& [label, bytes] : extra) {
    add(label, bytes);
    sum += bytes;
  }
  return text + fmt::format("  = {}", format_bytes(sum));
}

}  // namespace trireme
