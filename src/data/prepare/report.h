// What a run did and took, for report.json and for the printed summary.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "data/prepare/assemble.h"
#include "data/prepare/pipeline.h"

namespace trireme::prepare {

struct Usage {
  double wall_seconds = 0, pipeline_seconds = 0, assemble_seconds = 0;
  StageTimes times;
  int64_t input_bytes = 0, tokens = 0;  // of this run only
  int64_t bytes_read = 0;
};

// Returns time, memory and the speed of every stage of this process.
nlohmann::json usage_report(const Usage& usage, const PrepareSettings& settings, TokenType type);

// Adds documents, tokens and findings of all parts.
void add_totals(nlohmann::json& report, const std::vector<FinishedPart>& parts, TokenType type);

// UserError unless the files that a report names exist with the recorded sizes.
void require_output(const nlohmann::json& report);

// Returns a summary of a few lines.
std::string summary_of(const nlohmann::json& report);

}  // namespace trireme::prepare
