// Maps the names in logs to quantities. A quantity is logged under one of several names, or is computed from others.
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
  tflops,  // per accelerator
  mfu,
  memory,  // bytes per device
  learning_rate,
  grad_norm,
  count_
};

struct QuantityRow {
  Quantity quantity;
  std::string_view key;    // in JSON: "step_seconds"
  std::string_view title;  // as shown: "Step time"
  std::string_view unit;   // "s"; empty for a plain number
  struct Name {
    std::string_view logged;
    double scale = 1;  // logged value * scale is in `unit`
  };
  std::span<const Name> names;  // in order of preference
};

const QuantityRow& row_of(Quantity quantity);

// Returns the series of a quantity in its unit. Its name is that of the log ("reduced_train_loss") or says how it was computed.
std::optional<Series> find_quantity(const RunLog& log, const RunFacts& facts, Quantity quantity);

// Whether find_quantity of any quantity may look for a series of this name.
bool is_used_for_quantities(std::string_view name);

// LitGPT's name for the time of an iteration: one micro-batch, of which a step may have several.
inline constexpr std::string_view kMicroBatchTime = "iter_time";

// Our logs' series of steady steps (LeftOut in telemetry/step_record.h): 1 or 0.
inline constexpr std::string_view kSteadyStep = "steady_step";

// Returns the tokens per second of all devices, from the totals that LitGPT logs: per row, since the previous row.
std::optional<Series> tokens_per_second_from_totals(const RunLog& log);

// Returns step times as gpu-recipes' training-metrics tool takes them: "train_step_timing in s", in NeMo a running mean of five
// steps. Falls back to find_quantity.
std::optional<Series> reference_step_seconds(const RunLog& log, const RunFacts& facts);

}  // namespace trireme
