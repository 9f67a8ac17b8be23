#include "plan/step_time.h"

#include <algorithm>

#include "comm/group_kind.h"
#include "train/run_size.h"

namespace trireme {
namespace {

// Hidden communication takes multiprocessors and memory bandwidth from the ops it overlaps.
constexpr double kInterference = 0.15;  // where it was not measured
// Of the pass that it overlaps, communication can hide in this share: a bucket is summed only once it is complete.
constexpr double kHiding = 0.9;

double exposed(double communication, double window, double cost) {
  const double hidden = std::min(communication, kHiding * window);
  return communication - hidden + cost * hidden;
}

}  // namespace

StageLayers layers_of(const ModelSettings& model) {
  const int64_t stages = model.pipeline_model_parallel_size, chunks = model.virtual_pipeline_model_parallel_size;
  StageLayers layers;
  for (int64_t stage = 0; stage < stages; ++stage)
    layers.emplace_back(static_cast<size_t>(chunks), model.layers_of_stage(stages, stage) / chunks);
  return layers;
}

StageLayers spread_layers(int64_t layers, int64_t stages, int64_t chunks) {
  const int64_t parts = stages * chunks;
  StageLayers spread(static_cast<size_t>(stages), std::vector<int64_t>(static_cast<size_t>(chunks), layers / parts));
  if (layers % parts == 0) return spread;
  if ((layers + 2) % parts == 0) {
    for (auto& stage : spread)
      for (int64_t& chunk : stage) chunk = (layers + 2) / parts;
    spread.front().front() -= 1, spread.back().back() -= 1;
    return spread;
  }
  for (int64_t extra = 0; extra < layers % parts; ++extra)
    spread[static_cast<size_t>(extra % stages)][static_cast<size_t>(extra / stages)] += 1;
  return spread;
}

PlanCase::PlanCase(const Settings& from, StageLayers stage_layers, StepRecording recorded)
    : settings(from), layers(std::move(stage_layers)), recording(std::move(recorded)) {
  const ModelSettings& model = settings.model;
  const int64_t stages = model.pipeline_model_parallel_size;
  pipeline = pipeline_of(model, stages, model.global_batch_size / (model.micro_batch_size * settings.data_parallel_size()));
  const auto add = [&](int64_t micro_batches) {
    Pipeline shorter = pipeline;
    shorter.micro_batches = micro_batches;
    lengths.push_back({shorter, compute_schedules(shorter)});
  };
  const int64_t begin = 2 * stages + pipeline.micro_batches % stages;
  if (pipeline.micro_batches <= begin + stages)
    add(pipeline.micro_batches);
  else
    add(begin), add(begin + stages);
}

void ActionTime::add(const ActionTime& other, double times) {
  compute += times * other.compute, tp += times * other.tp, cp += times * other.cp, pp += times * other.pp;
  calls += times * other.calls;
}

void UpdateTime::add(const UpdateTime& other, double times) {
  grad_sync += times * other.grad_sync, param_sync += times * other.param_sync, optimizer += times * other.optimizer;
}

void StepTimer::PartTime::add(const PartTime& other, double times) {
  forward.add(other.forward, times), backward.add(other.backward, times), update.add(other.update, times);
}

StepTimer::StepTimer(const PlanCase& plan_case, const Platform& platform, const SoftwareProfile& software)
    : case_(plan_case),
      platform_(platform),
      software_(software),
      times_(platform, software, platform.measured ? platform.measured->ops_of(plan_case.settings) : nullptr) {
  add_stages();
}

ActionTime StepTimer::action_time(const PlanCalls& calls) const {
  const ModelSettings& model = case_.settings.model;
  const auto tp = static_cast<double>(model.tensor_model_parallel_size), cp = static_cast<double>(model.context_parallel_size);
  // Other programs rebuild the attention matrix, which this program never has.
  const bool repeats_attention = model.activations_checkpoint_granularity == RecomputeGranularity::selective &&
                                 software_.attention == AttentionKernel::unfused;
  ActionTime sum;
  for (const PlanCall& call : calls.calls()) {
    sum.calls += call.count;
    if (call.kind != CallKind::collective) {
      sum.compute += call.count * times_.seconds(call);
      if (repeats_attention && call.kind == CallKind::attention_backward) {
        PlanCall again = call;
        again.kind = CallKind::attention_forward;
        sum.compute += call.count * times_.seconds(again);
      }
    } else if (call.group == name_of(GroupKind::tp)) {
      sum.tp += times_.collective_seconds(call.name, call.count * call.bytes, call.count, {.size = tp, .stride = 1});
    } else if (call.name == "exchange_send") {
      sum.cp += call.count * times_.message_seconds(call.bytes, tp * cp > platform_.nvlink_domain ? platform_.nvlink_domain : tp);
    }
  }
  sum.tp *= software_[Constant::tp_exposed], sum.cp *= software_[Constant::tp_exposed];
  return sum;
}

UpdateTime StepTimer::update_time(const PlanCalls& calls) const {
  const Settings& settings = case_.settings;
  const auto tp = static_cast<double>(settings.model.tensor_model_parallel_size);
  const auto copies = static_cast<double>(settings.data_parallel_size() * settings.model.context_parallel_size);
  UpdateTime update;
  for (const PlanCall& call : calls.calls()) {
    const bool is_data_parallel = call.group == name_of(GroupKind::dp) || call.group == name_of(GroupKind::dp_cp);
    if (call.kind != CallKind::collective) {
      update.optimizer += call.count * times_.seconds(call);
    } else if (is_data_parallel) {
      double& sum = call.name == "all_gather" ? update.param_sync : update.grad_sync;
      sum += call.count * times_.collective_seconds(call.name, call.bytes, 1, {.size = copies, .stride = tp});
    } else if (call.group == name_of(GroupKind::embedding) && case_.pipeline.stages > 1) {
      update.grad_sync +=
          call.count * times_.collective_seconds(call.name, call.bytes, 1, {.size = 2, .stride = platform_.nvlink_domain});
    }
  }
  return update;
}

StepTimer::PartTime StepTimer::part_time(const PartCalls& calls) const {
  return {action_time(calls.forward), action_time(calls.backward), update_time(calls.update)};
}

// Of a message that is waited for; overlapped ones cost nothing.
double StepTimer::message_seconds() const {
  const ModelSettings& model = case_.settings.model;
  if (case_.pipeline.stages == 1 || case_.pipeline.messages == Messages::overlapped) return 0;
  const double ranks_apart = static_cast<double>(case_.settings.ranks()) / static_cast<double>(case_.pipeline.stages);
  const bool splits = software_.splits_messages && !model.sequence_parallel;
  const double parts = splits ? static_cast<double>(model.tensor_model_parallel_size) : 1;
  return times_.message_seconds(case_.recording.message_bytes / parts, ranks_apart);
}

// Where the host enqueues more slowly than the device computes, the device waits for it.
void StepTimer::wait_for_host(ActionTime& time) const {
  const double host = time.calls * software_[Constant::host] * 1e-6;
  if (host > time.total()) time.compute += host - time.total();
}

void StepTimer::add_stages() {
  const StepRecording& recording = case_.recording;
  const Pipeline& pipeline = case_.pipeline;
  const bool recomputes = case_.settings.model.activations_checkpoint_granularity == RecomputeGranularity::full;
  const PartTime layer = part_time(recomputes ? recording.recomputed_layer : recording.layer);
  const PartTime boundary = part_time(recording.boundary);
  const PartTime embedding = part_time(recording.embedding), head = part_time(recording.head);
  const double message = message_seconds();
  for (int64_t stage = 0; stage < pipeline.stages; ++stage) {
    StageTime time;
    std::vector<double> forward, backward;
    for (int64_t chunk = 0; chunk < pipeline.chunks; ++chunk) {
      PartTime part = boundary;
      part.add(layer, static_cast<double>(case_.layers[static_cast<size_t>(stage)][static_cast<size_t>(chunk)]));
      if (pipeline.is_first(stage, chunk)) part.add(embedding, 1);
      if (pipeline.is_last(stage, chunk)) part.add(head, 1);
      if (!pipeline.is_first(stage, chunk)) part.forward.pp = message;
      if (!pipeline.is_last(stage, chunk)) part.backward.pp = message;
      wait_for_host(part.forward), wait_for_host(part.backward);
      time.update.add(part.update, 1);
      forward.push_back(part.forward.total()), backward.push_back(part.backward.total());
      time.forward.push_back(part.forward), time.backward.push_back(part.backward);
    }
    stages_.push_back(std::move(time));
    seconds_.forward.push_back(std::move(forward)), seconds_.backward.push_back(std::move(backward));
  }
}

Played StepTimer::timeline() const {
  return play(case_.pipeline, compute_schedules(case_.pipeline), seconds_, KeepTimeline::yes);
}

double StepTimer::pipeline_seconds() const {
  const auto length = [&](const PlanCase::Played& step) {
    return play(step.pipeline, step.schedules, seconds_, KeepTimeline::no).length;
  };
  const double first = length(case_.lengths.front());
  if (case_.lengths.size() == 1) return first;
  const int64_t more = case_.pipeline.micro_batches - case_.lengths.front().pipeline.micro_batches;
  const double period = length(case_.lengths.back()) - first;
  return first + period * static_cast<double>(more) / static_cast<double>(case_.pipeline.stages);
}

// Data-parallel communication that the passes of one micro-batch do not hide, on the stage that has most.
double StepTimer::exposed_sync() const {
  const OptimSettings& optim = case_.settings.model.optim;
  const double cost = platform_.measured ? platform_.measured->overlap_cost : kInterference;
  double most = 0;
  for (const StageTime& stage : stages_) {
    double forward = 0, backward = 0;
    for (const ActionTime& chunk : stage.forward) forward += chunk.compute;
    for (const ActionTime& chunk : stage.backward) backward += chunk.compute;
    most = std::max(most, exposed(stage.update.grad_sync, optim.overlap_grad_sync ? backward : 0, cost) +
                              exposed(stage.update.param_sync, optim.overlap_param_sync ? forward : 0, cost));
  }
  return most;
}

StepTime StepTimer::time() const {
  const double length = pipeline_seconds();
  const auto micro_batches = static_cast<double>(case_.pipeline.micro_batches);
  StepTime busiest;
  double work = 0;
  for (const StageTime& stage : stages_) {
    ActionTime sum;
    for (const ActionTime& action : stage.forward) sum.add(action, micro_batches);
    for (const ActionTime& action : stage.backward) sum.add(action, micro_batches);
    if (sum.total() > work) {
      work = sum.total();
      busiest = {.compute = sum.compute, .tp = sum.tp, .cp = sum.cp, .pp = sum.pp};
    }
  }
  for (const StageTime& stage : stages_) busiest.optimizer = std::max(busiest.optimizer, stage.update.optimizer);
  busiest.bubble = case_.pipeline.stages == 1 ? 0 : length - work;  // exactly 0, for who asks whether there is one
  busiest.dp = exposed_sync();
  busiest.other = software_[Constant::step] + (platform_.measured ? platform_.measured->step_seconds : 0);
  busiest.total = length + busiest.dp + busiest.optimizer + busiest.other;
  return busiest;
}

StepTime step_time(const PlanCase& plan_case, const Platform& platform, const SoftwareProfile& software) {
  return StepTimer(plan_case, platform, software).time();
}

}  // namespace trireme
