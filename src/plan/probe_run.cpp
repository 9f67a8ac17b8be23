#include "plan/probe_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "backend/forwarding_backend.h"
#include "base/philox.h"
#include "plan/recording_backend.h"
#include "train/memory_plan.h"

namespace trireme {
namespace {

constexpr int64_t kProbeMicroBatches = 2;  // the first one of a step overwrites gradients, the second one adds to them

EngineSettings engine_settings_of(const Settings& settings) {
  return {.model = settings.model, .precision = settings.trainer.precision, .gradient_clip = settings.trainer.gradient_clip_val};
}

// Notes the shape of every op, and when it began and ended. Runs one op at a time.
class OpSampler final : public ForwardingBackend {
 public:
  struct Sample {
    PlanCall call;
    double begin = 0, end = 0;
  };
  explicit OpSampler(Backend& inner) : ForwardingBackend(inner) {}

#define TRIREME_SAMPLE_OP(Op) \
  void run(Stream stream, const Op& op) override { sample(stream, op); }
  TRIREME_OPS(TRIREME_SAMPLE_OP)
#undef TRIREME_SAMPLE_OP

  void repeat(Stream, const WorkKey&, const std::function<void()>& enqueue) override { enqueue(); }
  bool has_room_for_wgrad(int64_t, int64_t) const override { return false; }

  std::deque<Sample> take() { return std::exchange(samples_, {}); }

 private:
  template <class Op>
  void sample(Stream stream, const Op& op) {
    Sample& one = samples_.emplace_back(Sample{.call = call_of(op)});
    inner_.note_time(stream, &one.begin);
    inner_.run(stream, op);
    inner_.note_time(stream, &one.end);
  }

  std::deque<Sample> samples_;
};

// Batches of random tokens.
class ProbeBatches {
 public:
  explicit ProbeBatches(const ModelSettings& model) {
    const int64_t rows = model.micro_batch_size * model.encoder_seq_length;
    for (int64_t row = 0; row < rows; ++row) {
      const auto random = philox(1, {static_cast<uint32_t>(row), 0, 0, 0});
      const auto token = [&](uint32_t bits) { return static_cast<int32_t>(bits % static_cast<uint64_t>(model.vocab_size)); };
      tokens_.push_back(token(random[0])), targets_.push_back(token(random[1]));
      positions_.push_back(static_cast<int32_t>(row % model.encoder_seq_length));
      row_keys_.push_back(row);
    }
  }
  HostBatch batch() const { return {.tokens = tokens_, .targets = targets_, .positions = positions_, .row_keys = row_keys_}; }

 private:
  std::vector<int32_t> tokens_, targets_, positions_;
  std::vector<int64_t> row_keys_;
};

// A model in training on a backend.
class ProbeTraining {
 public:
  ProbeTraining(const Settings& settings, Backend& backend)
      : settings_(settings),
        plan_(plan_memory(engine_settings_of(settings), backend, kProbeMicroBatches)),
        memory_(plan_, backend),
        mesh_(Mesh::solo()),
        engine_(engine_settings_of(settings), backend, mesh_, memory_.arenas, memory_.step),
        batches_(settings.model) {
    engine_.initialise_weights();
  }

  void start_step() {
    const ModelSettings& model = settings_.model;
    engine_.start_step({.learning_rate = 1e-6,
                        .targets = kProbeMicroBatches * model.micro_batch_size * model.encoder_seq_length,
                        .micro_batches = kProbeMicroBatches,
                        .batch = [this](int64_t) { return batches_.batch(); }});
  }
  double finish_step() { return engine_.finish_step().done_at; }  // when it was done, as the device says
  double step() { return start_step(), finish_step(); }

 private:
  const Settings& settings_;
  MemoryPlan plan_;
  RunMemory memory_;
  Mesh mesh_;
  Engine engine_;
  ProbeBatches batches_;
};

constexpr int kWarmUp = 2;  // GEMMs are planned and memory is touched
constexpr size_t kLeastSteps = 3;

double plain_step_seconds(const Settings& settings, Backend& backend, double window, const std::function<void()>& begin) {
  ProbeTraining training(settings, backend);
  for (int i = 0; i < kWarmUp; ++i) training.step();
  begin();
  std::vector<double> seconds;
  const Stopwatch watch;
  training.start_step();
  double last = 0;
  do {
    training.start_step();  // the host runs ahead, as in a run
    const double now = training.finish_step();
    if (last > 0) seconds.push_back(now - last);
    last = now;
  } while (watch.seconds() < window || seconds.size() < kLeastSteps);
  training.finish_step();
  return median_of(std::move(seconds));
}

// The times of each shape, and the ops of a step.
struct Sampled {
  std::vector<PlanCall> shapes;
  std::vector<std::vector<double>> times;
  std::vector<double> steps;  // seconds of each

  void add(const OpSampler::Sample& sample) {
    const auto known = std::ranges::find_if(shapes, [&](const PlanCall& shape) { return shape.is_same_work(sample.call); });
    const auto at = static_cast<size_t>(known - shapes.begin());
    if (known == shapes.end()) shapes.push_back(sample.call), times.emplace_back();
    times[at].push_back(sample.end - sample.begin);
  }
};

Sampled sample_ops(const Settings& settings, Backend& backend, double window, const std::function<void()>& begin) {
  OpSampler sampler(backend);
  ProbeTraining training(settings, sampler);
  for (int i = 0; i < kWarmUp; ++i) training.step();
  backend.collect_times();
  sampler.take();
  begin();
  Sampled sampled;
  const Stopwatch watch;
  double last = system_clock().seconds();
  do {
    const double now = training.step();
    sampled.steps.push_back(now - last);
    backend.collect_times();
    for (const OpSampler::Sample& sample : sampler.take()) sampled.add(sample);
    last = system_clock().seconds();
  } while (watch.seconds() < window || sampled.steps.size() < kLeastSteps);
  return sampled;
}

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string ProbeModel::text() const {
  return fmt::format("{} wide, {} x {} tokens{}{}", width, micro_batch, sequence, is_llama ? ", llama" : "",
                     dropout > 0 ? ", dropout" : "");
}

Settings settings_of_probe(const ProbeModel& probe, const std::string& format) {
  Settings settings;
  settings.trainer.precision = format == "f32" ? Precision::f32 : Precision::bf16;
  ModelSettings& model = settings.model;
  model.fp8.enabled = format == "fp8";
  model.micro_batch_size = probe.micro_batch;
  model.global_batch_size = kProbeMicroBatches * probe.micro_batch;
  model.encoder_seq_length = model.max_position_embeddings = probe.sequence;
  model.num_layers = probe.layers;
  model.hidden_size = probe.width;
  model.num_attention_heads = probe.heads;
  model.num_query_groups = probe.groups;
  model.vocab_size = probe.vocabulary;
  model.hidden_dropout = model.attention_dropout = probe.dropout;
  model.ffn_hidden_size = 4 * probe.width;
  if (!probe.is_llama) return settings;
  constexpr int64_t kTile = 128;
  model.ffn_hidden_size = ceil_div(8 * probe.width / 3, kTile) * kTile;
  model.normalization = Normalization::rmsnorm;
  model.position_embedding_type = PositionEmbedding::rope;
  model.activation = MlpActivation::swiglu;
  model.bias = false;
  model.share_embeddings_and_output_weights = false;
  return settings;
}

bool has_room_for(const Settings& settings, Backend& backend, int64_t bytes) {
  constexpr int64_t kLibraries = int64_t{1} << 29;
  return plan_memory(engine_settings_of(settings), backend, kProbeMicroBatches).total() + kLibraries < bytes;
}

ProbeResult run_probe(const Settings& settings, Backend& backend, double window, const std::function<void()>& begin) {
  ProbeResult result;
  // On a device that the host runs ahead of, ops are closer together when nothing is timed.
  if (backend.runs_ahead()) result.step_seconds = plain_step_seconds(settings, backend, window, begin);
  Sampled sampled = sample_ops(settings, backend, window, begin);
  const auto steps = static_cast<double>(sampled.steps.size());
  if (!backend.runs_ahead()) result.step_seconds = median_of(std::move(sampled.steps));
  for (size_t i = 0; i < sampled.shapes.size(); ++i) {
    const double times = static_cast<double>(sampled.times[i].size()) / steps;
    const double seconds = std::max(median_of(std::move(sampled.times[i])), 1e-9);
    result.calls[measured_name(sampled.shapes[i])].push_back({sampled.shapes[i], seconds});
    result.ops_seconds += times * seconds, result.ops += times;
  }
  if (backend.runs_ahead()) return result;
  // Ops that run inline fill the step; what is between two medians and the step are ops that took longer than usual.
  const double stretch = result.step_seconds / result.ops_seconds;
  for (auto& [name, calls] : result.calls)
    for (MeasuredCall& one : calls) one.seconds *= stretch;
  result.ops_seconds = result.step_seconds;
  return result;
}

}  // namespace trireme
