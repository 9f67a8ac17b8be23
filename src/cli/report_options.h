// Options shared by `metrics` and `report`.
#pragma once

#include <CLI/CLI.hpp>

#include "report/run_facts.h"

namespace trireme {

struct FactArguments {
  FactOptions said;
  std::string precision;  // bf16 or fp8; empty: from the log

  void add_to(CLI::App& command);
  FactOptions options() const;
};

}  // namespace trireme
