// Tensors placed by their lifetimes: small steps by hand, and every layout of the cover, in which no access may meet another
// tensor.
#include "train/placement.h"

#include <gtest/gtest.h>

#include "backend/cost/cost_gpu.h"
#include "support/layout_cover.h"
#include "support/memory_checker.h"

namespace trireme {
namespace {

constexpr int64_t kUnit = Arena::kAlignment;

// A step by hand: actions in which tensors of whole units are taken and used.
class SmallStep {
 public:
  void begin(ActionKind kind) { recorder_.begin({.kind = kind}); }
  Tensor take(const char* name, int64_t units = 1) { return recorder_.take(name, {units * kUnit}, DType::u8); }
  void use(Stream stream, const std::vector<Tensor>& read, const std::vector<Tensor>& written, int64_t scratch = 0) {
    recorder_.begin_call(stream, scratch);
    for (const Tensor& tensor : read) recorder_.access(tensor, Access::read);
    for (const Tensor& tensor : written) recorder_.access(tensor, Access::written);
    scratch_.compute = std::max(scratch_.compute, scratch);
  }
  void use(const std::vector<Tensor>& read, const std::vector<Tensor>& written, int64_t scratch = 0) {
    use(kCompute, read, written, scratch);
  }
  void in_place(const Tensor& out, const Tensor& in) { recorder_.in_place(out, in); }
  // What comes next on `later` runs after what was put on `earlier`.
  void order(Stream earlier, Stream later) { recorder_.wait(later, recorder_.record(earlier, "order")); }

  StepPlan plan() {
    recorder_.finish();
    return place_tensors(recorder_.actions(), {.batch = 1, .saved = 1, .inputs = 1, .gradients = 1}, scratch_);
  }

 private:
  LifetimeRecorder recorder_;
  ScratchPeaks scratch_;
};

int64_t address_of(const StepPlan& plan, ActionKind kind, size_t number) {
  return plan.address(plan.action(kind, 0).tensors[number].place, {});
}

TEST(Placement, TensorsUsedOneAfterTheOtherShareMemory) {
  SmallStep step;
  step.begin(ActionKind::forward);
  const Tensor a = step.take("a"), b = step.take("b"), c = step.take("c");
  step.use({}, {a});
  step.use({a}, {b});
  step.use({b}, {c});
  const StepPlan plan = step.plan();
  EXPECT_EQ(plan.bytes, 2 * kUnit);
  EXPECT_EQ(address_of(plan, ActionKind::forward, 0), address_of(plan, ActionKind::forward, 2));
  EXPECT_NE(address_of(plan, ActionKind::forward, 0), address_of(plan, ActionKind::forward, 1));
}

TEST(Placement, AnOutputTakesThePlaceOfAnInputWhereTheOpPermitsIt) {
  for (const bool permitted : {false, true}) {
    SmallStep step;
    step.begin(ActionKind::forward);
    const Tensor a = step.take("a"), b = step.take("b");
    step.use({}, {a});
    step.use({a}, {b});
    if (permitted) step.in_place(b, a);
    EXPECT_EQ(step.plan().bytes, permitted ? kUnit : 2 * kUnit);
  }
}

TEST(Placement, AnInputThatIsReadLaterKeepsItsPlace) {
  SmallStep step;
  step.begin(ActionKind::forward);
  const Tensor a = step.take("a"), b = step.take("b");
  step.use({}, {a});
  step.use({a}, {b});
  step.in_place(b, a);
  step.use({a, b}, {});
  EXPECT_EQ(step.plan().bytes, 2 * kUnit);
}

// wgrad on another stream reads a until the compute stream waits for it.
TEST(Placement, ATensorIsInUseUntilTheComputeStreamHasWaited) {
  for (const bool waits_early : {false, true}) {
    SmallStep step;
    step.begin(ActionKind::backward);
    const Tensor a = step.take("a"), b = step.take("b");
    step.use({}, {a});
    step.order(kCompute, kWgrad);
    step.use(kWgrad, {a}, {});
    if (waits_early) step.order(kWgrad, kCompute);
    step.use({}, {b});
    if (!waits_early) step.order(kWgrad, kCompute);
    EXPECT_EQ(step.plan().bytes, waits_early ? kUnit : 2 * kUnit);
  }
}

TEST(Placement, ACrossingTensorKeepsItsSlotAndIsFreeAroundItsUse) {
  SmallStep step;
  step.begin(ActionKind::forward);
  const Tensor early = step.take("early"), saved = step.take("saved");
  step.use({}, {early});
  step.use({}, {saved});
  step.begin(ActionKind::backward);
  const Tensor late = step.take("late");
  step.use({saved}, {});
  step.use({}, {late});
  const StepPlan plan = step.plan();
  EXPECT_EQ(plan.kept, kUnit);
  EXPECT_EQ(plan.bytes, kUnit) << "before saved is written and after it is read, others are there";
  EXPECT_EQ(plan.action(ActionKind::forward, 0).tensors[1].place.ring, SlotRing::saved);
}

TEST(Placement, ScratchOfAnOpIsFreeForTensorsThatItDoesNotMeet) {
  SmallStep step;
  step.begin(ActionKind::forward);
  const Tensor before = step.take("before"), during = step.take("during");
  step.use({}, {before});
  step.use({}, {during}, 3 * kUnit);
  const StepPlan plan = step.plan();
  EXPECT_EQ(plan.bytes, 4 * kUnit);
  EXPECT_LT(address_of(plan, ActionKind::forward, 0), 3 * kUnit);
  EXPECT_EQ(address_of(plan, ActionKind::forward, 1), 3 * kUnit);
}

TEST(Placement, ATensorThatNoOpUsesHasNoMemory) {
  SmallStep step;
  step.begin(ActionKind::forward);
  step.take("shape_only", 100);
  EXPECT_EQ(step.plan().bytes, 0);
}

// ------------------------------------------------------------------------------------------------------- whole steps

// The layouts of the cover, in bf16 and where it can be in FP8, for GPUs and CPUs.
enum class Target : uint8_t { gpu, cpu };
struct Planned {
  Layout layout;
  Target target = Target::gpu;
};
std::ostream& operator<<(std::ostream& out, const Planned& setup) {
  return out << setup.layout.name << (setup.target == Target::gpu ? " gpu" : " cpu");
}

std::vector<Planned> all_setups() {
  std::vector<Planned> all;
  for (const Choices& choices : pairwise_cover())
    for (const RecomputeGranularity recompute :
         {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full})
      for (const bool fp8 : {false, true}) {
        Layout layout = layout_of(choices);
        layout.precision = Precision::bf16;
        layout.model.activations_checkpoint_granularity = recompute;
        layout.model.fp8.enabled = fp8;
        layout.name += fmt::format(" recompute {}{}", static_cast<int>(recompute), fp8 ? " fp8" : "");
        if (fp8 && layout.model.pipeline_schedule == PipelineSchedule::zero_bubble) continue;
        all.push_back({layout, Target::gpu});
        if (!fp8) all.push_back({layout, Target::cpu});
      }
  return all;
}

// wgrad on a stream of its own is for single GPUs: more layers than it may be late.
std::vector<Planned> setups_of_one_gpu() {
  std::vector<Planned> all;
  for (const auto make : {small_gpt3, small_neox, small_llama})
    for (const bool dropout : {false, true}) {
      ModelSettings model = make();
      model.num_layers = 6;
      if (!dropout) model.hidden_dropout = model.attention_dropout = 0;
      all.push_back({layout_of(fmt::format("one gpu{}", dropout ? " dropout" : ""), model, {}, Precision::bf16), Target::gpu});
    }
  return all;
}

const Backend& backend_of(Target target) {
  static const CostGpu gpu;
  static const CpuBackend cpu(1);
  return target == Target::gpu ? static_cast<const Backend&>(gpu) : cpu;
}

// Steps of several lengths and an evaluation of one rank, on the cost backend, with the planned addresses.
void run(const Planned& setup, int rank, MemoryChecker& checker) {
  const EngineSettings settings{.model = setup.layout.model, .precision = setup.layout.precision, .gradient_clip = 1};
  StepLog log(StepLog::Keep::no);
  log.watch(&checker);
  CostBackend cost(backend_of(setup.target), log);
  Arenas arenas = Arenas::measuring();
  const CostMesh cost_mesh = CostMesh::of({setup.layout.shape, rank}, &log);
  Engine engine(settings, cost, cost_mesh.mesh, arenas, checker);
  engine.initialise_weights();
  const ModelSettings& model = setup.layout.model;
  const int64_t stages = setup.layout.shape.pp;
  std::vector<int64_t> lengths = {model.global_batch_size / setup.layout.shape.dp, stages};
  if (model.pipeline_schedule != PipelineSchedule::gpipe) lengths.push_back(3 * stages);
  for (const int64_t micro_batches : lengths) {
    const StepInput input{.targets = 1, .micro_batches = micro_batches, .batch = [](int64_t) { return HostBatch{}; }};
    engine.train_step(input);
    engine.evaluate(input);
  }
}

MemoryPlan plan_of(const Planned& setup, int rank) {
  return plan_memory({.model = setup.layout.model, .precision = setup.layout.precision, .gradient_clip = 1},
                     backend_of(setup.target), setup.layout.model.global_batch_size / setup.layout.shape.dp,
                     {setup.layout.shape, rank});
}

// One rank of each stage, and the last one, which is not the first of its tensor-parallel group.
std::set<int> ranks_to_check(const MeshShape& shape) {
  std::set<int> ranks = {shape.size() - 1};
  for (int stage = 0; stage < shape.pp; ++stage) ranks.insert(stage * shape.tp * shape.cp * shape.dp);
  return ranks;
}

TEST(Placement, NoTwoTensorsInUseOverlapOnAnyLayout) {
  std::vector<Planned> all = all_setups();
  for (const Planned& setup : setups_of_one_gpu()) all.push_back(setup);
  for (const Planned& setup : all)
    for (const int rank : ranks_to_check(setup.layout.shape)) {
      const MemoryPlan plan = plan_of(setup, rank);
      MemoryChecker checker(plan.step);
      run(setup, rank, checker);
      ASSERT_TRUE(checker.failures().empty()) << setup << " rank " << rank << ": " << checker.failures().front();
    }
}

// The plan leans on these events: without one of them the checker must find tensors in the way of each other.
TEST(Placement, AnEventLessIsFound) {
  const auto failures_without = [](const char* event, const Planned& setup) {
    const MemoryPlan plan = plan_of(setup, 0);
    MemoryChecker checker(plan.step, event);
    run(setup, 0, checker);
    return checker.failures().size();
  };
  const Planned one_gpu = setups_of_one_gpu().front();
  for (const char* event : {"operands_made", "wgrads_done"}) EXPECT_GT(failures_without(event, one_gpu), 0U) << event;
  ModelSettings model = small_gpt3();
  model.sequence_parallel = true;
  const Planned gathers{layout_of("sp", model, {.tp = 2}), Target::gpu};
  for (const char* event : {"rows_ready", "rows_gathered", "rows_made", "rows_summed"})
    EXPECT_GT(failures_without(event, gathers), 0U) << event;
  model.ub_tp_comm_overlap = true;
  const Planned pieces{layout_of("pieces", model, {.tp = 2}), Target::gpu};
  for (const char* event : {"piece_made", "piece_gathered"}) EXPECT_GT(failures_without(event, pieces), 0U) << event;
  const Planned ring{layout_of("ring", small_gpt3(), {.cp = 2}), Target::gpu};
  for (const char* event : {"keys_here", "keys_received", "keys_sent", "share_added", "gradients_received", "gradients_sent"})
    EXPECT_GT(failures_without(event, ring), 0U) << event;
}

}  // namespace
}  // namespace trireme
