// How long a step should take, said before the run; its end says how long they took.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct StepPrediction {
  std::string on;  // "dgx-h200 with software trireme"
  double seconds = 0;
  std::vector<std::pair<std::string, double>> parts;  // seconds by name; they sum to `seconds`
  std::string parts_text;                             // the same in words

  std::string text() const;                 // "a step takes 1.32 s on dgx-h200 with ..."
  std::string text(double measured) const;  // beside the seconds that steps took; 0: none was measured
  nlohmann::ordered_json json(double measured) const;
};

}  // namespace trireme
