// Trains a small model for a few steps on the machine that is there, and times every op in them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "plan/measured_ops.h"

namespace trireme {

struct ProbeModel {
  int64_t width = 0, heads = 0, groups = 0, sequence = 0, micro_batch = 0, vocabulary = 0;
  int64_t layers = 2;
  bool is_llama = false;  // RMSNorm, SwiGLU and rotary embeddings; else the GPT-3 block
  double dropout = 0;

  std::string text() const;  // "1024 wide, 2048 tokens"
};

// "f32", "bf16" or "fp8".
Settings settings_of_probe(const ProbeModel& model, const std::string& format);

struct ProbeResult {
  MeasuredCalls calls;      // each shape once, with the median of its times
  double step_seconds = 0;  // median
  double ops_seconds = 0;   // of the ops of a step, one after the other
  double ops = 0;           // per step
};

double median_of(std::vector<double> values);  // of at least one

// Whether the memory of the machine suffices.
bool has_room_for(const Settings& settings, Backend& backend, int64_t bytes);

// Steps for so many seconds, op by op. `begin` is called before: ranks start together, because they share power, memory and cores
// as they do in training.
ProbeResult run_probe(const Settings& settings, Backend& backend, double window, const std::function<void()>& begin);

}  // namespace trireme
