// How long a step should take, said before the run, part by part; its end says how long the steps and their parts took.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

using PartSeconds = std::vector<std::pair<std::string, double>>;  // by name

struct StepPrediction {
  std::string on;  // "dgx-h200 with software trireme"
  double seconds = 0;
  PartSeconds parts;       // they sum to `seconds`
  std::string parts_text;  // the same in words
  // Of steps that were traced op by op, on the rank that computed longest: compute, tp, cp, pipeline, dp, optimizer, other.
  // Empty: no step was traced. `pipeline` has the parts pp and bubble of the prediction, because waiting for a message is either.
  PartSeconds measured_parts;

  // A part as predicted and as measured.
  struct Row {
    std::string name;
    double predicted = 0, measured = 0;
  };
  std::vector<Row> rows() const;  // those that are not 0 in both; empty if no step was traced

  std::string text() const;                 // "a step takes 1.32 s on dgx-h200 with ..."
  std::string text(double measured) const;  // beside the seconds that steps took; 0: none was measured
  std::string rows_text() const;            // "compute 60.2 ms, measured 58.1 ms; ..."
  nlohmann::ordered_json json(double measured) const;
};

}  // namespace trireme
