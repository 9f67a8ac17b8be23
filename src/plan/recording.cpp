#include "plan/recording.h"

#include <algorithm>
#include <array>

#include "comm/cost.h"
#include "comm/mesh.h"
#include "plan/recording_backend.h"
#include "train/engine.h"

namespace trireme {
namespace {

// The first micro-batch of a step also gathers weights, and the last one also sums gradients; the one between does neither.
constexpr int64_t kProbeStages = 3, kMicroBatches = 3, kPlainMicroBatch = 1;

// Hands out tensors that differ only in their address, and notes where each action begins.
class ActionMarks final : public StepMemory {
 public:
  struct Mark {
    Action action;
    size_t calls = 0, collectives = 0;  // before the action
  };
  ActionMarks(const RecordingBackend& backend, const StepLog& log) : backend_(backend), log_(log) {}

  void begin(const Action& action) override { marks.push_back({action, backend_.calls.size(), log_.records.size()}); }
  Tensor take(const char*, const Shape& shape, DType dtype) override {
    next_ += uint64_t{1} << kAddressBits;
    return {.data = reinterpret_cast<void*>(next_),  // NOLINT(performance-no-int-to-ptr): never dereferenced
            .dtype = dtype,
            .shape = shape,
            .device = Device::none};
  }
  std::vector<Mark> marks;

 private:
  static constexpr int kAddressBits = 40;
  const RecordingBackend& backend_;
  const StepLog& log_;
  uint64_t next_ = 0;
};

bool is_of_update(const PlanCall& call) {
  if (call.kind == CallKind::optimizer) return true;
  return call.kind == CallKind::collective && call.group != name_of(GroupKind::tp) && call.group != name_of(GroupKind::cp);
}

PlanCall collective_of(const OpRecord& record) {
  const auto bytes = std::max(record.bytes_read, record.bytes_written);
  return {.kind = CallKind::collective, .name = record.name, .bytes = static_cast<double>(bytes), .group = record.group};
}

struct Probe {
  PartCalls calls;
  double message_bytes = 0;
};

// Whatever a plain micro-batch does not do is of the update.
void sort_call(const PlanCall& call, const Action* action, Probe& probe) {
  if (call.group == name_of(GroupKind::pp)) {
    probe.message_bytes = std::max(probe.message_bytes, call.bytes);
    return;
  }
  probe.calls.update.add(call);
  if (is_of_update(call) || action == nullptr || action->micro_batch != kPlainMicroBatch) return;
  (action->kind == ActionKind::forward ? probe.calls.forward : probe.calls.backward).add(call);
  probe.calls.update.add(call, -static_cast<double>(kMicroBatches));
}

// Sorts the calls by the action in which each was made.
template <class Call, class Position>
void sort_calls(const std::vector<Call>& calls, const std::vector<ActionMarks::Mark>& marks, Position position,
                const std::function<PlanCall(const Call&)>& convert, Probe& probe) {
  size_t mark = 0;
  const Action* action = nullptr;
  for (size_t i = 0; i < calls.size(); ++i) {
    for (; mark < marks.size() && position(marks[mark]) <= i; ++mark) action = &marks[mark].action;
    sort_call(convert(calls[i]), action, probe);
  }
}

Settings probe_settings(const Settings& settings, int64_t layers_per_stage, RecomputeGranularity recompute) {
  Settings probe = settings;
  ModelSettings& model = probe.model;
  model.num_layers = kProbeStages * layers_per_stage;
  model.pipeline_model_parallel_size = kProbeStages;
  model.virtual_pipeline_model_parallel_size = 1;
  model.pipeline_schedule = PipelineSchedule::one_forward_one_backward;
  model.num_layers_in_first_pipeline_stage = model.num_layers_in_last_pipeline_stage = 0;
  model.activations_checkpoint_granularity = recompute;
  model.activations_checkpoint_method = RecomputeMethod::uniform;
  model.activations_checkpoint_num_layers = 1;
  model.global_batch_size = model.micro_batch_size * settings.data_parallel_size() * kMicroBatches;
  model.rampup_batch_size.clear();
  return probe;
}

Probe record_stage(const Settings& settings, int64_t data_parallel, int64_t stage, RecordedDevice device) {
  const ModelSettings& model = settings.model;
  const MeshShape shape{.tp = narrow<int>(model.tensor_model_parallel_size),
                        .cp = narrow<int>(model.context_parallel_size),
                        .dp = narrow<int>(data_parallel),
                        .pp = narrow<int>(kProbeStages)};
  StepLog log;
  const CostMesh cost_mesh = CostMesh::of({.shape = shape, .rank = narrow<int>(stage) * shape.tp * shape.cp * shape.dp}, &log);
  RecordingBackend backend(device);
  ActionMarks marks(backend, log);
  Arenas arenas = Arenas::measuring();
  const EngineSettings engine_settings{
      .model = model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
  Engine engine(engine_settings, backend, cost_mesh.mesh, arenas, marks);
  const StepInput input{
      .learning_rate = 0, .targets = 1, .micro_batches = kMicroBatches, .batch = [](int64_t) { return HostBatch{}; }};
  engine.initialise_weights();
  engine.train_step(input);  // the first step differs: it has no FP8 scales yet
  backend.calls.clear();
  log.clear();
  marks.marks.clear();
  engine.train_step(input);
  Probe probe;
  using Mark = ActionMarks::Mark;
  sort_calls<PlanCall>(
      backend.calls, marks.marks, [](const Mark& m) { return m.calls; }, [](const PlanCall& call) { return call; }, probe);
  sort_calls<OpRecord>(
      log.records, marks.marks, [](const Mark& m) { return m.collectives; }, collective_of, probe);
  return probe;
}

PartCalls difference(const PartCalls& whole, const PartCalls& part) {
  PartCalls rest = whole;
  rest.add(part, -1);
  return rest;
}

}  // namespace

bool PlanCall::is_same_work(const PlanCall& o) const {
  return kind == o.kind && name == o.name && flops == o.flops && bytes == o.bytes && draws == o.draws && rows == o.rows &&
         columns == o.columns && depth == o.depth && batches == o.batches && dtype == o.dtype && group == o.group;
}

void PlanCalls::add(const PlanCall& call, double times) {
  const auto known = std::ranges::find_if(calls_, [&](const PlanCall& other) { return other.is_same_work(call); });
  if (known != calls_.end())
    known->count += times * call.count;
  else
    calls_.push_back(call), calls_.back().count *= times;
}

void PlanCalls::add(const PlanCalls& calls, double times) {
  for (const PlanCall& call : calls.calls_) add(call, times);
  std::erase_if(calls_, [](const PlanCall& call) { return call.count == 0; });
}

double PlanCalls::flops() const {
  double sum = 0;
  for (const PlanCall& call : calls_) sum += call.flops * call.count;
  return sum;
}

void PartCalls::add(const PartCalls& part, double times) {
  forward.add(part.forward, times), backward.add(part.backward, times), update.add(part.update, times);
}

StepRecording record_step(const Settings& settings, RecordedDevice device) {
  const int64_t data_parallel = settings.data_parallel_size();
  const auto probe = [&](int64_t layers, int64_t stage, RecomputeGranularity recompute) {
    return record_stage(probe_settings(settings, layers, recompute), data_parallel, stage, device);
  };
  const RecomputeGranularity asked = settings.model.activations_checkpoint_granularity;
  const RecomputeGranularity kept = asked == RecomputeGranularity::full ? RecomputeGranularity::none : asked;
  const Probe middle = probe(1, 1, kept);
  StepRecording recording{.message_bytes = middle.message_bytes};
  recording.layer = difference(probe(2, 1, kept).calls, middle.calls);
  recording.recomputed_layer = recording.layer;
  if (asked == RecomputeGranularity::full)
    recording.recomputed_layer = difference(probe(2, 1, asked).calls, probe(1, 1, asked).calls);
  recording.boundary = difference(middle.calls, recording.layer);
  recording.embedding = difference(probe(1, 0, kept).calls, middle.calls);
  recording.head = difference(probe(1, kProbeStages - 1, kept).calls, middle.calls);
  return recording;
}

}  // namespace trireme
