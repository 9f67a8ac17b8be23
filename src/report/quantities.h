// What the many names in logs mean. A quantity is logged under one of several names, or follows from others that are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "report/run_facts.h"
#include "report/run_log.h"

namespace trireme {

enum class Quantity : uint8_t {
  loss,
  validation_loss,
  step_seconds,
  tokens_per_second,
  tflops,  // of one accelerator
  mfu,
  memory,  // bytes on one device
  learning_rate,
  grad_norm,
  count_
};

struct QuantityRow {
  Quantity quantity;
  std::string_view key;    // in JSON: "step_seconds"
  std::string_view title;  // for people: "Step time"
  std::string_view unit;   // "s"; empty for a plain number
  struct Name {
    std::string_view logged;
    double scale = 1;  // logged value times this is in `unit`
  };
  std::span<const Name> names;  // the best first
};

const QuantityRow& row_of(Quantity quantity);

// The series of a quantity in its unit, under the name it came from ("reduced_train_loss") or that says how it was made.
std::optional<Series> find_quantity(const RunLog& log, const RunFacts& facts, Quantity quantity);

// What LitGPT calls the time of an iteration: one micro-batch, of which a step may have several.
inline constexpr std::string_view kMicroBatchTime = "iter_time";

// Whether each step is a steady one, as our logs tell (LeftOut in telemetry/step_record.h): 1 or 0.
inline constexpr std::string_view kSteadyStep = "steady_step";

// Tokens of all devices per second, from the totals that LitGPT logs: of each row since the one before it.
std::optional<Series> tokens_per_second_from_totals(const RunLog& log);

// Step times as the training-metrics tool of gpu-recipes takes them: "train_step_timing in s", which NeMo makes a running mean of
// five steps; where that is missing, whatever find_quantity finds.
std::optional<Series> reference_step_seconds(const RunLog& log, const RunFacts& facts);

}  // namespace trireme
