// The calls of a training step, recorded by running the trainer on a backend that executes nothing. Layers are alike and so are
// the ranks of a stage, so a small pipeline with the layers of the real one is recorded: its first, middle and last stage. The
// calls of a stage with any number of layers follow as a sum of parts, whatever the size of the model and of the cluster.
#pragma once

#include <string_view>
#include <vector>

#include "config/settings.h"
#include "tensor/dtype.h"

namespace trireme {

enum class CallKind : uint8_t { gemm, attention_forward, attention_backward, memory, optimizer, collective };

// One op or collective and how often it is called.
struct PlanCall {
  CallKind kind = CallKind::memory;
  std::string_view name;
  double flops = 0;
  double bytes = 0;  // read and written; of a collective: the whole tensor that the group shares
  double draws = 0;  // with dropout: the bytes, or of attention the FLOPs, of the op
  // Of a GEMM: [rows,depth] times [depth,columns]. Of attention: queries, keys, head width, and B*H as batches.
  int64_t rows = 0, columns = 0, depth = 0, batches = 1;
  DType dtype = DType::bf16;
  std::string_view group;  // of a collective
  double count = 1;

  bool is_same_work(const PlanCall& other) const;
};

// Without repetition.
class PlanCalls {
 public:
  void add(const PlanCall& call, double times = 1);
  void add(const PlanCalls& calls, double times = 1);
  const std::vector<PlanCall>& calls() const { return calls_; }
  double flops() const;

 private:
  std::vector<PlanCall> calls_;
};

struct PartCalls {
  PlanCalls forward, backward;  // of one micro-batch
  PlanCalls update;             // once a step: gradient sums, optimizer, weight gathers
  void add(const PartCalls& part, double times);
};

struct StepRecording {
  PartCalls layer, recomputed_layer;  // the second one's backward runs its forward again
  PartCalls boundary;                 // of each chunk, besides its layers
  PartCalls embedding, head;          // of the first and last stage
  double message_bytes = 0;           // between two stages, per micro-batch and rank
};

// What the recorded step would run on: the trainer cuts some work by it.
enum class RecordedDevice : uint8_t { gpu, cpu };

// The settings must be valid, their vocabulary known.
StepRecording record_step(const Settings& settings, RecordedDevice device = RecordedDevice::gpu);

}  // namespace trireme
