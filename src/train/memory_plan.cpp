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
  const Mesh mesh = Mesh::on_paper(place, &log);
  Engine engine(settings, cost, mesh, plan.arenas);
  const StepInput input{
      .learning_rate = 0, .targets = 1, .micro_batches = micro_batches, .batch = [](int64_t) { return HostBatch{}; }};
  engine.initialise_weights();  // what the first step waits for
  log.clear();
  engine.train_step(input);
  plan.ops = cost.scratch_peaks();
  plan.communication = mesh.staging_bytes();
  plan.flops = log.flops;
  plan.bytes_moved = log.bytes_moved;
  plan.checkpoint_copy = saved_bytes(engine.layout());
  plan.holdings = holdings_of(engine.layout());
  return plan;
}

std::vector<std::pair<std::string, int64_t>> MemoryPlan::rows() const {
  return {{"parameters", arenas.parameters.peak()},
          {"gradients", arenas.gradients.peak()},
          {"masters", arenas.masters.peak()},
          {"states", arenas.states.peak()},
          {"activations", arenas.activations.peak()},
          {"scratch", arenas.scratch.peak() + shared_scratch()},
          {"communication", communication}};
}

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const auto& [label, bytes] : rows()) sum += bytes;
  return sum;
}

RunMemory::RunMemory(const MemoryPlan& plan, Backend& backend)
    : shared("shared scratch", plan.shared_scratch(), [&](int64_t bytes) { return backend.allocate(bytes); }),
      arenas(Arenas::measuring()) {
  const Tensor all = shared.take({plan.shared_scratch()}, DType::u8);
  const auto from = [&](int64_t begin) {
    const std::shared_ptr<void> block(static_cast<char*>(all.data) + begin, [](void*) {});  // shared owns it
    return Memory{.device = all.device, .block = block};
  };
  backend.set_scratch(kCompute, all.rows(0, std::max(plan.ops.others, plan.ops.attention)));
  if (plan.ops.beside > 0) backend.set_scratch(kWeightProducts, all.rows(plan.beside_at(), plan.ops.beside));
  arenas = Arenas::like(plan.arenas, backend,
                        {.logits = from(plan.logits_at()), .work = from(plan.work_at()), .passing = from(plan.passing_at())});
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
