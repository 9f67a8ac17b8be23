// What `metrics` and `report` both let a user say about runs.
#pragma once

#include <CLI/CLI.hpp>

#include "report/run_facts.h"

namespace trireme {

struct FactArguments {
  FactOptions said;
  std::string precision;  // bf16 or fp8; empty: as the log tells

  void add_to(CLI::App& command);
  FactOptions options() const;
};

}  // namespace trireme
