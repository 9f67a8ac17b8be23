// The device side of training: weights, gradients, optimizer state and the model, and what is done with them: a training step and
// an evaluation. Host code only enqueues; the results of a step are read on request.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "model/gpt.h"
#include "train/host_states.h"
#include "train/lifetimes.h"
#include "train/lora.h"
#include "train/pipeline_p2p.h"

namespace trireme {

// One arena per kind of memory that is in use throughout a run. The rest is the step's: placement.h.
struct Arenas {
  Arena parameters, gradients, masters, states;
  Arena host_states;  // masters and moments in host memory
  Arena activations;  // micro-batches on the device
  Arena scratch;      // buffers of the streams and gradients sent between stages

  static Arenas measuring();
  static Arenas like(const Arenas& measured, BackendMemory& memory);  // with memory, as much as the measured ones needed
};

// A micro-batch in host memory: the rows of this rank (data/batch/batch.h).
struct HostBatch {
  std::span<const int32_t> tokens, targets, positions;
  std::span<const int64_t> row_keys;
  std::span<const int32_t> document_starts = {};  // empty where attention sees the whole sample
};

struct StepInput {
  double learning_rate = 0;
  int64_t targets = 0;  // unmasked targets in the global batch
  int64_t micro_batches = 0;
  std::function<HostBatch(int64_t micro_batch)> batch;
};

struct StepResult {
  double loss = 0;              // mean over the unmasked targets of the global batch
  double grad_norm = 0;         // before clipping
  double loss_scale = 1;        // of this step
  bool finite = true;           // if not, the update was skipped
  std::string nonfinite;        // what is not finite: the first parameter with such a gradient, or the loss
  double done_at = 0;           // when the device finished the step, in seconds of system_clock()
  double backward_seconds = 0;  // host time in backward passes
};

struct EngineSettings {
  ModelSettings model;
  Precision precision = Precision::f32;
  double gradient_clip = 0;
};

// Micro-batches with equal keys differ only in their data.
WorkKey work_key_of(const Action& action, Fp8Scaling scaling);

class Engine {
 public:
  Engine(EngineSettings settings, Backend& backend, const Mesh& mesh, Arenas& arenas, StepMemory& memory);
  ~Engine();  // waits until no collective uses its memory
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void initialise_weights();

  // Enqueues a step. Results of at most kStepsAhead steps may be unread.
  void start_step(const StepInput& input);
  StepResult finish_step();  // waits for the oldest step whose results have not been read
  StepResult train_step(const StepInput& input) { return start_step(input), finish_step(); }
  static constexpr size_t kStepsAhead = 2;
  // Returns the sum of the losses of all unmasked targets of the given micro-batches.
  double evaluate(const StepInput& input);

  Backend& backend() const { return backend_; }
  const FlatLayout& layout() const { return layout_; }
  const ModelSettings& model() const { return settings_.model; }
  const Weights& weights() const { return *weights_; }
  const Grads& grads() const { return *grads_; }
  const Slots& slots() const { return slots_; }  // of each ring
  // The parts that this rank owns: those that layout() names.
  const Fp8State* fp8() const { return fp8_ ? &*fp8_ : nullptr; }
  Tensor first_moment() const { return states_.first_moment; }
  Tensor second_moment() const { return states_.second_moment; }
  Tensor master(const Bucket& bucket) const;
  Tensor master(const Bucket& bucket, const OwnedPart& part) const;
  // Whose memory masters and moments are in; null: the host's, which is current while no step is unread.
  Backend* master_backend() const { return host_states_ && states_.master ? nullptr : &backend_; }
  Backend* moment_backend() const { return host_states_ ? nullptr : &backend_; }
  // The scale of the loss and its counters, in fp16; else absent.
  Tensor loss_scale() const;
  LoraAdapters* lora() { return lora_ ? &*lora_ : nullptr; }  // null where all weights are trained
  const LoraAdapters* lora() const { return lora_ ? &*lora_ : nullptr; }
  int64_t updates();                      // optimizer updates made
  void restore_updates(int64_t updates);  // call after loading masters and moments: makes the weights from the masters
  void forget_scales();                   // call after that if no FP8 scales were loaded: resets them

 private:
  // The results of a step, being copied to the host.
  struct Results {
    std::span<double> scalars;  // by StepScalar
    std::span<double> squares;  // of the gradients, by name
    int64_t targets = 0;
    double done_at = 0;
    double backward_seconds = 0;
    Event arrived;
  };

  struct BucketRanges {
    std::vector<FlatRange> norms;    // of the piece this rank owns: one for each parameter of the bucket, empty ones too
    std::vector<DecayRange> decays;  // the same, without the empty ones
  };

  BucketRanges ranges_of(const Bucket& bucket) const;
  void add_moments(Arenas& arenas);
  OptimizerStates acquire_states(size_t index);
  bool scales_loss() const { return settings_.precision == Precision::f16; }
  void initialise_bucket(size_t index);
  void set_weights(size_t index);
  void prefetch_states();
  void add_results();
  void add_chunks(Arenas& arenas);
  void run(const Pipeline& pipeline, const StepInput& input);
  void compute(const Action& action, const StepInput& input);
  ChunkPass pass_of(const Action& action) const;
  bool repeats() const;
  Wgrad choose_wgrad(ScheduleKind schedule, const Dims& dims) const;
  void enqueue(const Action& action);
  void check_vocabulary(const HostBatch& batch) const;
  Fp8Scaling choose_scaling(const Action& action);
  void upload_batch(const DeviceBatch& to, const HostBatch& batch);
  void begin(const StepInput& input);
  void optimizer_step();
  void update(size_t bucket);
  void measure_gradients();
  void renew(size_t bucket);
  void share_results();
  void share_loss();
  void read_scalars();
  void fetch_results(int64_t targets);
  std::string locate_nonfinite(double loss, std::span<const double> squares) const;
  // The pipeline of a step with so many micro-batches.
  Pipeline pipeline(int64_t micro_batches) const;

  EngineSettings settings_;
  Backend& backend_;
  const Mesh& mesh_;
  StepMemory& memory_;
  FlatLayout layout_;
  std::optional<Fp8State> fp8_;
  std::optional<Weights> weights_;
  OptimizerStates states_;  // [layout_.state_count]; no masters in f32, no moments with LoRA
  std::optional<HostStates> host_states_;
  std::optional<Grads> grads_;
  std::optional<LoraAdapters> lora_;
  Wgrad wgrad_ = Wgrad::with_dgrad;
  Slots slots_;                       // of each ring
  std::vector<DeviceBatch> batches_;  // by slot
  std::vector<Event> batch_free_;     // by slot: reached when the next micro-batch may be copied there
  std::vector<Gpt> chunks_;
  std::optional<PipelineMessages> messages_;
  bool has_scales_ = false;           // FP8: a step has computed them, in this run or before the checkpoint
  Tensor scalars_;                    // [kStepScalars] f64
  Tensor squares_;                    // [names] f64
  std::vector<BucketRanges> ranges_;  // by bucket
  std::vector<std::string> names_;    // of all parameters of the model, or of all adapters
  Memory results_memory_;             // of the host
  std::array<Results, kStepsAhead> results_;
  uint64_t steps_started_ = 0, steps_finished_ = 0;
  double backward_seconds_ = 0;  // of the host, in the step that is being started
  std::array<double, kStepScalars> host_scalars_{};
  Pipeline scheduled_;  // what schedule_ is for
  std::vector<Action> schedule_;
};

}  // namespace trireme
